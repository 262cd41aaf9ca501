"""How often published steps lie in their interval: `observed`, asked of constants that know nothing of their software.

A step is predicted with nothing fitted to its software (`without_program.py`); whether the interval around that covers
what was measured is asked of constants that know no row of the software either (`interval_left_out.toml`, the output of
`python tools/fit/spread.py --each`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from lockstep.base.documents.shipped import shipped_table
from lockstep.base.records import dataclass, replace
from lockstep.base.types.plain import Json
from lockstep.check.validation.case import Case
from lockstep.check.validation.without_program import without_program
from lockstep.decide.planner.interval import Ends, Spread, ends_of, known_spread

MOST = 32
"""Rows of a table of which `validate` asks whether they are covered, evenly spread."""


@dataclass(frozen=True, slots=True)
class Observed:
    """A measured step beside what is predicted for software left out of the fit."""

    software: str
    measured_s: float
    ends: Ends

    @property
    def log_error(self) -> float:
        """ln(measured / predicted)."""
        return float(np.log(self.measured_s / self.ends.step_time_s))

    @property
    def covered(self) -> bool:
        """Whether it lies in the interval whose constants know no row of its software."""
        found = self.ends.interval(without(self.software))
        return found.low <= self.measured_s <= found.high


def observed(case: Case) -> Observed:
    """The step of a case, predicted with constants that its software had no part in."""
    blind = without_program(case)
    ends = ends_of(blind.job, blind.cluster, blind.layout.grid())
    return Observed(case.job.recipe.software.name, case.measured, ends)


def sampled(cases: Sequence[Case]) -> Sequence[Case]:
    """At most MOST of the cases, evenly spread."""
    places = np.linspace(0, max(0, len(cases) - 1), min(MOST, len(cases))).round()
    return [cases[int(place)] for place in places]


@cache
def _left_out() -> dict[str, dict[str, float]]:
    return shipped_table("lockstep.check.validation", "interval_left_out.toml")


def without(software: str) -> Spread:
    """The constants that know no row of a software; all where it has none."""
    known: Json = dict(_left_out().get(software, {}))
    return replace(known_spread(), **known)
