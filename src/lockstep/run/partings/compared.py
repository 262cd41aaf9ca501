"""Two runs beside one another: where they part, why, and how far apart they end."""

from __future__ import annotations

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json, picked, plain
from lockstep.base.types.shown import Shown
from lockstep.run.partings.cause import CAUSES, Difference, cause_of, difference
from lockstep.run.partings.record import KINDS, Record, kind_of


@dataclass(frozen=True, slots=True, repr=False)
class Compared(Shown):
    """What came of two runs that were kept."""

    runs: tuple[str, str]
    steps: tuple[int, ...]
    """That both have."""
    step: int | None
    """The first at which something differs; None for the same bits throughout."""
    cause: str
    """One of CAUSES."""
    differences: tuple[Difference, ...]
    """At that step, in the order in which a step makes them."""
    apart: tuple[tuple[int, float], ...]
    """Steps from there on, and how far the array that differs first is apart then, as a share of its size."""
    digits: int
    """That a log prints of what differs first; 0 where it is kept to the bit."""

    @property
    def identical(self) -> bool:
        """Whether nothing differs."""
        return self.step is None

    def to_dict(self) -> Json:
        """Plain JSON form."""
        parting = None if self.step is None else {"step": self.step, "tensor": self.differences[0].name}
        return {
            **picked(self, "runs steps identical"),
            "parting": parting,
            "cause": self.cause,
            "because": CAUSES[self.cause],
            "rows": plain(self.differences),
            "apart": [{"step": step, "of_size_frac": frac} for step, frac in self.apart],
            "digits": self.digits,
        }


def compare(one: Record, other: Record) -> Compared:
    """The first step and array at which two runs differ, by what both have. Raises BadInput where that is nothing."""
    steps = tuple(sorted(set(one.steps) & set(other.steps)))
    if not any(set(one.steps[step]) & set(other.steps[step]) for step in steps):
        raise BadInput(f"has no step with a number that {one.name} has as well", other.name)
    for step in steps:
        found = _at(step, one, other)
        if found:
            name = found[0].name
            later = tuple((each, frac) for each, frac in apart(name, one, other) if each >= step)
            cause, digits = cause_of(step, found, one, other), one.digits.get(name, 0)
            return Compared((one.name, other.name), steps, step, cause, tuple(found), later, digits)
    return Compared((one.name, other.name), steps, None, "none", (), (), max(one.digits.values(), default=0))


def _at(step: int, one: Record, other: Record) -> list[Difference]:
    """What differs at a step, in the order of KINDS, then as the first run names it."""
    mine, yours = one.steps[step], other.steps[step]
    both = sorted((name for name in mine if name in yours), key=lambda name: KINDS.index(kind_of(name)))
    found = (difference(name, kind_of(name), mine[name], yours[name]) for name in both)
    return [each for each in found if each is not None]


def apart(name: str, one: Record, other: Record) -> list[tuple[int, float]]:
    """Steps at which both runs have an array, and the share of its size by which it differs then."""
    steps = [step for step in sorted(set(one.steps) & set(other.steps)) if name in one.steps[step]]
    found = [
        (step, difference(name, kind_of(name), one.steps[step][name], other.steps[step][name]))
        for step in steps
        if name in other.steps[step]
    ]
    return [(step, each.of_size_frac if each else 0.0) for step, each in found]
