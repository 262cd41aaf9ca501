"""The verb about training for real: `train`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lockstep.api.question import Quantity, whole
from lockstep.errors import BadInput, UnknownName
from lockstep.units import parse_count

if TYPE_CHECKING:
    from lockstep.measure.train import Method, TrainRun

MOST_STEPS = 1_000_000


@dataclass(frozen=True, slots=True)
class TrainingMethods:
    """The ways to train."""

    methods: tuple[Method, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        return {"methods": [one.to_dict() for one in self.methods]}


@dataclass(frozen=True, slots=True)
class Training:
    """One run per method, all of the same task."""

    runs: tuple[TrainRun, ...]
    cores: int
    """Of this machine: ranks beyond them share."""

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What to know about the numbers."""
        ranks = max(run.ranks for run in self.runs)
        shared = f"{ranks} ranks on {self.cores} cores of one machine: times are the processors', not a network's"
        return (shared, *dict.fromkeys(line for run in self.runs for line in run.assumptions))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        return {"runs": [run.to_dict() for run in self.runs], "assumptions": list(self.assumptions)}


def training_methods() -> TrainingMethods:
    """All methods that `train` knows, with their settings."""
    from lockstep.measure.train import all_methods

    return TrainingMethods(all_methods())


def train(
    method: str,
    *,
    ranks: Quantity = 2,
    model: str | None = None,
    layers: Quantity = 4,
    steps: Quantity = 100,
    batch: Quantity = 64,
    optimizer: str = "sgd",
    learning_rate: Quantity | None = None,
    dtype: str = "float32",
    seed: Quantity = 0,
    settings: Mapping[str, object] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Training:
    """Trains a small model on real data by one method, or several between commas, on real processes.

    `settings` go to every method that has them; `progress(done, total)` counts the steps of all runs.
    """
    from lockstep.measure.train import MODELS, Task, find_method
    from lockstep.measure.train import train as run

    chosen = [find_method(name.strip()) for name in method.split(",")]
    per_method = [_for(one, settings or {}, chosen) for one in chosen]
    name = model or next((kind for kind in MODELS if all(kind in one.models for one in chosen)), "mlp")
    if name not in MODELS:
        raise UnknownName("model", name, MODELS, "--model")
    number = whole(steps, "--steps")
    if number > MOST_STEPS:
        raise BadInput(f"must be at most {MOST_STEPS:,}, got {number:,}", "--steps")
    rate = MODELS[name].learning_rate if learning_rate is None else parse_count(learning_rate, "--learning-rate")
    task = Task(
        model=name, layers=whole(layers, "--layers"), steps=number, batch=whole(batch, "--batch"), optimizer=optimizer,
        learning_rate=rate, dtype=dtype, seed=whole(seed, "--seed", minimum=0),
    )  # fmt: skip
    runs: list[TrainRun] = []

    def step(done: int, total: int) -> None:
        if progress is not None:
            progress(len(runs) * total + done, len(chosen) * total)

    for one, own in zip(chosen, per_method, strict=True):
        runs.append(run(one.name, task, whole(ranks, "--ranks"), own, on_step=step))
    return Training(tuple(runs), os.cpu_count() or 1)


def _for(method: Method, settings: Mapping[str, object], methods: list[Method]) -> dict[str, object]:
    """The settings that a method has; every one must belong to some method."""
    known = {one.name: one.setting_names for one in methods}
    for name in settings:
        if not any(name.replace("-", "_") in names for names in known.values()):
            allowed = sorted({name for names in known.values() for name in names})
            raise UnknownName("setting", name, allowed or ("(none)",), "--set")
    return {name: value for name, value in settings.items() if name.replace("-", "_") in known[method.name]}
