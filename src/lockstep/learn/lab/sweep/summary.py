"""`Sweep`: what many runs say together.

Of every result and every check the mean over the seeds, with the 95 % interval of the mean (Student t), and the law
beside the check. The mean agrees with the law within the same number of standard errors as one run does, with the
standard error of the mean,

    sqrt(sum of squared standard errors) / seeds
so a small disagreement that no single run could see comes out when the seeds are many. Outcomes are added up in blocks
of seeds, so that a point of a million needs no more memory than one of a thousand.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from lockstep.base.errors import CTRL_C
from lockstep.base.records import dataclass, replace
from lockstep.base.types.plain import Json, picked, plain
from lockstep.base.types.shown import Shown
from lockstep.learn.lab.findings import Check, verdict
from lockstep.learn.lab.sweep.cells import Moments
from lockstep.learn.lab.sweep.results import Results, Table, added, shown, table
from lockstep.learn.lab.sweep.trial import Outcome

TABLES = ("rows", "ends", "theory")
"""Of `Results`."""


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


@dataclass(frozen=True, slots=True)
class Checked:
    """What is kept of one check over seeds."""

    first: Check
    got: Moments
    expected: float
    tolerance: float
    squared_error: float
    """Sums, as the two before."""
    freedom: int
    """Degrees of freedom of all standard errors together; 0 where one of them is known."""
    agreeing: int

    @classmethod
    def of(cls, checks: Sequence[Check]) -> Checked:
        """That of one check per seed."""
        return cls(
            checks[0],
            Moments.of([check.got for check in checks]),
            math.fsum(check.expected for check in checks),
            math.fsum(check.tolerance for check in checks),
            math.fsum(check.standard_error**2 for check in checks),
            sum(max(check.runs - 1, 1) for check in checks) if all(check.runs for check in checks) else 0,
            sum(check.ok for check in checks),
        )

    def __add__(self, other: Checked) -> Checked:
        return Checked(
            self.first,
            self.got + other.got,
            self.expected + other.expected,
            self.tolerance + other.tolerance,
            self.squared_error + other.squared_error,
            self.freedom + other.freedom if self.freedom and other.freedom else 0,
            self.agreeing + other.agreeing,
        )

    def pooled(self) -> Pooled:
        """Means over the seeds."""
        n = self.got.count
        together = replace(
            self.first,
            expected=self.expected / n,
            got=self.got.mean,
            standard_error=math.sqrt(self.squared_error) / n,
            tolerance=self.tolerance / n,
            runs=self.freedom + 1 if self.freedom else 0,
        )
        return Pooled(together, self.got.ci95, n, self.agreeing)


@dataclass(frozen=True, slots=True)
class Block:
    """What is kept of the outcomes of some seeds of a point: as much as of one of them, however many they are."""

    seeds: int
    agreeing: int
    checks: Mapping[str, Checked]
    tables: tuple[Table, ...]
    """The rows, the ends of curves and the theory."""
    first: Results

    @classmethod
    def of(cls, outcomes: Sequence[Outcome]) -> Block:
        """That of these outcomes, one per seed."""
        named: dict[str, list[Check]] = {}
        for outcome in outcomes:
            for check in outcome.checks:
                named.setdefault(check.what, []).append(check)
        checks = {what: Checked.of(several) for what, several in named.items()}
        tables = tuple(table([getattr(one.results, name) for one in outcomes]) for name in TABLES)
        return cls(len(outcomes), sum(one.agrees for one in outcomes), checks, tables, outcomes[0].results)

    def __add__(self, other: Block) -> Block:
        """That of both, these seeds first."""
        checks = dict(self.checks)
        for what, one in other.checks.items():
            checks[what] = checks[what] + one if what in checks else one
        tables = tuple(added(*both) for both in zip(self.tables, other.tables, strict=True))
        return Block(self.seeds + other.seeds, self.agreeing + other.agreeing, checks, tables, self.first)

    def point(self, swept: tuple[tuple[str, object], ...]) -> Point:
        """The point with these seeds; of a single one the results as they are."""
        results = self.first
        if self.seeds > 1:
            rows, ends, theory = (shown(one, self.seeds) for one in self.tables)
            results = Results(rows, ends, theory, self.first.picture)
        return Point(swept, self.seeds, self.agreeing, tuple(one.pooled() for one in self.checks.values()), results)


def joined(swept: tuple[tuple[str, object], ...], outcomes: Sequence[Outcome]) -> Point:
    """The point of these outcomes, one per seed."""
    return Block.of(outcomes).point(swept)
