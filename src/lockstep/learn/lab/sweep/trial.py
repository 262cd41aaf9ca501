"""The points of a sweep, every combination of the values that are given; and what is run and kept at each.

`Trial` is one experiment at one point with one seed; `Outcome` what a sweep keeps of it. Both have a plain form, so
that any engine can send them to another process or machine, and a file can keep them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any, Self, overload

from lockstep.base.errors import BadInput
from lockstep.base.records import asdict, dataclass, field
from lockstep.base.rows import listed
from lockstep.base.settings import read_settings
from lockstep.base.types.plain import Json
from lockstep.base.units import BANDWIDTH, COUNT, FRACTION, SIZE, TIME
from lockstep.learn.lab.experiment import Experiment
from lockstep.learn.lab.findings import Check, Domain, Picture
from lockstep.learn.lab.sweep.results import Results, results_of

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
class Trials(Sequence[Trial]):
    """Every point with every seed from `seed` on, the seed fastest; each is made when it is asked for."""

    experiment: str
    points: tuple[Point, ...]
    seeds: int
    seed: int

    def __len__(self) -> int:
        return len(self.points) * self.seeds

    @overload
    def __getitem__(self, place: int) -> Trial: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[Trial, ...]: ...

    def __getitem__(self, place: int | slice) -> Trial | tuple[Trial, ...]:
        if isinstance(place, slice):
            return tuple(self[one] for one in range(*place.indices(len(self))))
        if not 0 <= place < len(self):
            raise IndexError(place)
        return Trial(self.experiment, self.points[place // self.seeds], self.seed + place % self.seeds)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The checks and results of one run; its whole curves come back by running it alone."""

    checks: tuple[Check, ...]
    results: Results = field(default_factory=Results)

    @property
    def agrees(self) -> bool:
        """Whether every check came out as it should."""
        return all(check.ok for check in self.checks)

    @classmethod
    def of(cls, answer: Json) -> Self:
        """The outcome whose plain form is `answer`."""
        checks = [Check(**{**check, "holds": Domain(**check["holds"])}) for check in answer["checks"]]
        found = answer["results"]
        picture = None if found["picture"] is None else Picture(**found["picture"])
        kept = Results(tuple(found["rows"]), tuple(found["ends"]), tuple(found["theory"]), picture)
        return cls(tuple(checks), kept)


def run_trial(trial: Trial) -> Json:
    """Runs the experiment here: the plain form of its outcome, or under `refused` what it said of its settings."""
    from lockstep.learn.lab.experiment import find_experiment

    try:
        found = find_experiment(trial.experiment).answer(dict(trial.settings), trial.seed)
    except BadInput as refused:
        return {"refused": refused.message, "where": refused.where}
    return asdict(Outcome(found.checks, results_of(found)))
