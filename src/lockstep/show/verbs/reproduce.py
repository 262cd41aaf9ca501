"""The verb about bits: `reproduce`."""

import os
from collections.abc import Callable, Mapping
from inspect import signature, unwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from lockstep.base.errors import BadInput, UnknownName
from lockstep.show.verbs.words.calling import strict
from lockstep.show.verbs.words.option import Argument, Option
from lockstep.show.verbs.words.quantity import Quantity
from lockstep.show.verbs.words.question import whole
from lockstep.show.verbs.words.shared import SEED, SETTINGS

if TYPE_CHECKING:
    from lockstep.run.partings import Compared
    from lockstep.run.reproduce import Reproduction

MOST_STEPS = 1000
DROPOUT_FRAC = 0.1
"""Where dropout is a source, there must be some."""


METHOD = Argument(
    "METHOD|RUN",
    "Training method, as listed by lockstep train; or a run that was kept, of which another is given: a folder of "
    "states (.npz, .safetensors, .pt) named by their steps, a table of losses (.csv, .jsonl), or a training log.",
    names="methods",
    default="synchronous",
)
OTHER = Argument("OTHER", "The other run that was kept; nothing is trained then.", optional=True)
OPTIMIZER = Option("O", "Optimizer: sgd, momentum or adam.", names="trainers", default="sgd")
SWITCH = Option(
    "S",
    "Settings to switch: reduction-order, rank-order, dtype, data-order, dropout-seed. Several, separated "
    "by commas, are switched together, then one at a time to find the cause.",
    default="each alone",
)


@strict
def reproduce(
    method: Annotated[str | Path, METHOD] = "synchronous",
    other: Annotated[str | Path | None, OTHER] = None,
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
) -> "Reproduction | Compared":
    """Trains twice with the same seeds and compares bits, then with sources of difference switched.

    `switch`: sources between commas, together and alone; each alone when left out. `progress(runs done, runs)`. With
    `other`, both are files or folders of runs that were kept, and nothing is trained.
    """
    if other is not None:
        run_words = {"ranks": ranks, "model": model, "steps": steps, "batch": batch, "optimizer": optimizer}
        return _kept(method, other, {**run_words, "seed": seed, "switch": switch, "set": settings or None})
    from lockstep.run.reproduce import reproduce as run
    from lockstep.run.train import MODELS, Task

    if os.path.exists(method):
        raise BadInput("give the other run as well, to be compared with this one", "OTHER")
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
    return run(str(method), task, whole(ranks, "--ranks"), settings, switch=names, progress=progress)


def _kept(one: str | Path, other: str | Path, asked: Mapping[str, object]) -> "Compared":
    """Two runs that were kept. Raises BadInput for options of training."""
    from lockstep.run.partings import compare, read_record

    usual = signature(unwrap(reproduce)).parameters
    for name, value in asked.items():
        if value != (usual[name].default if name in usual else None):
            raise BadInput("trains, and has no effect on two runs that were kept", f"--{name}")
    return compare(read_record(one), read_record(other))
