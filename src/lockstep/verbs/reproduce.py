"""The verb about bits: `reproduce`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from lockstep.errors import BadInput, UnknownName
from lockstep.verbs.words.calling import strict
from lockstep.verbs.words.quantity import Quantity
from lockstep.verbs.words.question import whole

if TYPE_CHECKING:
    from lockstep.measure.reproduce import Reproduction

MOST_STEPS = 1000
DROPOUT_FRAC = 0.1
"""Where dropout is a source, there must be some."""


@strict
def reproduce(
    method: str = "synchronous",
    *,
    ranks: Quantity = 4,
    model: str = "mlp",
    steps: Quantity = 5,
    batch: Quantity = 64,
    optimizer: str = "sgd",
    seed: Quantity = 0,
    switch: str | None = None,
    settings: Mapping[str, object] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Reproduction:
    """Trains twice with the same seeds and compares bits, then with sources of difference switched.

    `switch`: sources between commas, together and alone; each alone when left out. `progress(runs done, runs)`.
    """
    from lockstep.measure.reproduce import reproduce as run
    from lockstep.measure.train import MODELS, Task

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
