"""The verb about bits: `reproduce`."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated

from lockstep.base.errors import BadInput, UnknownName
from lockstep.show.verbs.words.calling import strict
from lockstep.show.verbs.words.option import Argument, Option
from lockstep.show.verbs.words.quantity import Quantity
from lockstep.show.verbs.words.question import whole
from lockstep.show.verbs.words.shared import SEED, SETTINGS

if TYPE_CHECKING:
    from lockstep.run.reproduce import Reproduction

MOST_STEPS = 1000
DROPOUT_FRAC = 0.1
"""Where dropout is a source, there must be some."""


METHOD = Argument("METHOD", "Training method, as listed by lockstep train.", names="methods", default="synchronous")
OPTIMIZER = Option("O", "Optimizer: sgd, momentum or adam.", names="trainers", default="sgd")
SWITCH = Option(
    "S",
    "Settings to switch: reduction-order, rank-order, dtype, data-order, dropout-seed. Several, separated "
    "by commas, are switched together, then one at a time to find the cause.",
    default="each alone",
)


@strict
def reproduce(
    method: Annotated[str, METHOD] = "synchronous",
    *,
    ranks: Annotated[Quantity, Option("N", "Number of processes on this machine.", default="4")] = 4,
    model: Annotated[str, Option("M", "Model: mlp, cnn, gpt or moe.", default="mlp")] = "mlp",
    steps: Annotated[Quantity, Option("N", "Optimizer steps of every run.", default="5")] = 5,
    batch: Annotated[Quantity, Option("N", "Samples per step.", default="64")] = 64,
    optimizer: Annotated[str, OPTIMIZER] = "sgd",
    seed: Annotated[Quantity, SEED] = 0,
    switch: Annotated[str | None, SWITCH] = None,
    settings: Annotated[Mapping[str, object] | None, SETTINGS] = None,
    progress: Callable[[int, int], None] | None = None,
) -> "Reproduction":
    """Trains twice with the same seeds and compares bits, then with sources of difference switched.

    `switch`: sources between commas, together and alone; each alone when left out. `progress(runs done, runs)`.
    """
    from lockstep.run.reproduce import reproduce as run
    from lockstep.run.train import MODELS, Task

    if model not in MODELS:
        raise UnknownName("model", model, MODELS, "--model")
    number = whole(steps, "--steps")
    if number > MOST_STEPS:
        raise BadInput(f"must be at most {MOST_STEPS:,}, got {number:,}", "--steps")
    task = Task(
        model=model, steps=number, batch=whole(batch, "--batch"), optimizer=optimizer, dropout_frac=DROPOUT_FRAC,
        learning_rate=MODELS[model].learning_rate, seed=whole(seed, "--seed", minimum=0),
    )  # fmt: skip
    names = [] if switch is None else [name.strip() for name in switch.split(",")]
    return run(method, task, whole(ranks, "--ranks"), settings, switch=names, progress=progress)
