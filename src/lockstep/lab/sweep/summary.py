"""`Sweep`: what many runs say together.

Of every result and every check the mean over the seeds, with the 95 % interval of the mean (Student t), and the law
beside the check. The mean agrees with the law within the same number of standard errors as one run does, with the
standard error of the mean,

    sqrt(sum of squared standard errors) / seeds
so a small disagreement that no single run could see comes out when the seeds are many.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from lockstep.errors import CTRL_C
from lockstep.lab.findings import Check, verdict
from lockstep.lab.sweep.results import Results, mean_and_ci95, pooled_results
from lockstep.lab.sweep.trial import Outcome
from lockstep.types.plain import Json, picked, plain
from lockstep.types.shown import Shown


@dataclass(frozen=True, slots=True)
class Pooled:
    """One check over all seeds of a point."""

    check: Check
    """Means of law and simulation, with the standard error of the mean."""
    ci95: tuple[float, float]
    """Of the simulated mean, from the spread between seeds; a single value with one seed."""
    seeds: int
    agreeing: int
    """Seeds whose own check came out as it should."""

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return self.check.to_dict() | picked(self, "ci95 seeds agreeing")


@dataclass(frozen=True, slots=True)
class Point:
    """One combination of settings."""

    swept: tuple[tuple[str, object], ...]
    seeds: int
    agreeing: int
    """Runs whose checks all came out as they should."""
    checks: tuple[Pooled, ...]
    results: Results

    @property
    def agrees(self) -> bool:
        """Whether the means agree with the laws."""
        return all(pooled.check.ok for pooled in self.checks)

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return dict(self.swept) | picked(self, "seeds agreeing agrees results checks")


@dataclass(frozen=True, slots=True, repr=False)
class Sweep(Shown):
    """All points of a sweep, in the order of the grid. Nothing in it depends on where the runs were made."""

    experiment: str
    question: str
    source: str
    settings: tuple[tuple[str, object], ...]
    """Those that were fixed."""
    seed: int
    points: tuple[Point, ...]
    """Those with a run that was made."""
    asked: int
    """Runs that were asked for."""
    left_out: tuple[tuple[str, str], ...] = ()
    """Runs that ended every process they were made in: name, and why."""
    stopped: str = ""
    """Why it ended early, if it did."""

    @property
    def complete(self) -> bool:
        """Whether all runs were made; not after Ctrl-C."""
        return self.runs == self.asked

    @property
    def runs(self) -> int:
        """Number of runs."""
        return sum(point.seeds for point in self.points)

    @property
    def agrees(self) -> bool:
        """Whether every mean agrees with its law."""
        return all(point.agrees for point in self.points)

    @property
    def ok(self) -> bool:
        """Whether it agrees, and nothing but a person ended it early."""
        return self.agrees and self.stopped in ("", CTRL_C)

    @property
    def verdict(self) -> str:
        """Whether theory and simulation agree over the whole sweep, or where they do not first."""
        for point in self.points:
            if not point.agrees:
                where = ", ".join(f"{name} = {value}" for name, value in point.swept)
                said = verdict([pooled.check for pooled in point.checks])
                return f"{said}; at {where}" if where else said
        return verdict([pooled.check for point in self.points for pooled in point.checks])

    def to_dict(self) -> Json:
        """Plain JSON form."""
        shown = picked(self, "experiment question verdict agrees runs complete")
        seen = {"settings": dict(self.settings), "seed": self.seed, "rows": plain(self.points), "source": self.source}
        lost = [{"question": name, "why": why} for name, why in self.left_out]
        return shown | {"stopped": self.stopped, "left_out": lost} | seen


def joined(swept: tuple[tuple[str, object], ...], outcomes: Sequence[Outcome]) -> Point:
    """The point of these outcomes, one per seed."""
    named: dict[str, list[Check]] = {}
    for outcome in outcomes:
        for check in outcome.checks:
            named.setdefault(check.what, []).append(check)
    agreeing = sum(outcome.agrees for outcome in outcomes)
    results = pooled_results([outcome.results for outcome in outcomes])
    return Point(swept, len(outcomes), agreeing, tuple(_pooled(checks) for checks in named.values()), results)


def _pooled(checks: Sequence[Check]) -> Pooled:
    """Means over seeds."""
    n = len(checks)
    mean, ci95 = mean_and_ci95([check.got for check in checks])
    together = replace(
        checks[0],
        expected=math.fsum(check.expected for check in checks) / n,
        got=mean,
        standard_error=math.sqrt(math.fsum(check.standard_error**2 for check in checks)) / n,
        tolerance=math.fsum(check.tolerance for check in checks) / n,
        runs=sum(max(check.runs - 1, 1) for check in checks) + 1 if all(check.runs for check in checks) else 0,
    )
    return Pooled(together, ci95, n, sum(check.ok for check in checks))
