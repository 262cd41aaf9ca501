"""The points of a sweep, every combination of the values that are given; and what is run and kept at each.

`Trial` is one experiment at one point with one seed; `Outcome` what a sweep keeps of it. Both are plain data, so that
any engine can send them to another process or machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from lockstep.errors import BadInput
from lockstep.lab.experiment import Experiment
from lockstep.lab.findings import Check
from lockstep.lab.sweep.results import Results, results_of
from lockstep.rows import listed
from lockstep.settings import read_settings
from lockstep.units import BANDWIDTH, COUNT, FRACTION, SIZE, TIME

MOST_TRIALS = 1_000_000
UNITS = {"_s": TIME, "_B": SIZE, "_Bps": BANDWIDTH, "_frac": FRACTION}
"""Units that the ends of a range may have, by the end of the setting's name."""

Point = tuple[tuple[str, Any], ...]


def read_grid(
    experiment: Experiment, fixed: Mapping[str, object], swept: Mapping[str, object], seeds: int
) -> tuple[tuple[Point, Point], ...]:
    """(swept pairs, all pairs) of every point, checked: a bad value is found before anything runs.

    Raises `BadInput` for unknown keys, values that are not allowed, keys both fixed and swept, and sweeps of more than
    a million runs.
    """
    both = sorted(set(_named(fixed)) & set(_named(swept)))
    if both:
        raise BadInput(f"{', '.join(both)} is both fixed by --set and swept", "--sweep")
    values = {name: _values(name, given) for name, given in _named(swept).items()}
    number = seeds
    for several in values.values():
        number *= len(several)
    if number > MOST_TRIALS:
        raise BadInput(f"{number:,} runs; at most {MOST_TRIALS:,}, use fewer values or seeds", "--sweep")
    points = []
    for combination in product(*values.values()):
        pairs = dict(zip(values, combination, strict=True))
        read_settings(experiment.settings, {**fixed, **pairs})
        points.append((tuple(pairs.items()), (*_named(fixed).items(), *pairs.items())))
    return tuple(points)


def _named(given: Mapping[str, object]) -> dict[str, object]:
    return {key.replace("-", "_"): value for key, value in given.items()}


def _values(name: str, given: object) -> tuple[object, ...]:
    """The values of one key, each once: text with commas or ranges, or a sequence."""
    units = next((units for ending, units in UNITS.items() if name.endswith(ending)), COUNT)
    if isinstance(given, Iterable) and not isinstance(given, str):
        given = [tuple(value) if isinstance(value, list) else value for value in given]
    found = listed(given, units, f"--sweep {name}")
    return (given,) if found is None else found


@dataclass(frozen=True, slots=True)
class Trial:
    """What to run."""

    experiment: str
    settings: tuple[tuple[str, object], ...]
    """Names and values as given."""
    seed: int

    def __str__(self) -> str:
        pairs = "".join(f" {name}={value}" for name, value in self.settings)
        return f"{self.experiment}{pairs} seed={self.seed}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The checks and results of one run; its whole curves come back by running it alone."""

    checks: tuple[Check, ...]
    results: Results = field(default_factory=Results)

    @property
    def agrees(self) -> bool:
        """Whether every check came out as it should."""
        return all(check.ok for check in self.checks)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Settings that the experiment itself refused, which only a run can find out."""

    message: str
    where: str | None


def run_trial(trial: Trial) -> Outcome | Refusal:
    """Runs the experiment here."""
    from lockstep.lab.experiment import find_experiment

    try:
        found = find_experiment(trial.experiment).answer(dict(trial.settings), trial.seed)
    except BadInput as refused:
        return Refusal(refused.message, refused.where)
    return Outcome(found.checks, results_of(found))
