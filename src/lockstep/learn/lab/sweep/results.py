"""`Results`: what an experiment itself found at one point of a sweep: its rows, the ends of its curves, its theory.

With one seed they are those of the run. With several a number that differs between seeds is its mean, with the 95 %
interval of the mean (Student t) beside it under `ci95_` and its name; words that differ are counted. All of it is plain
data, so that any engine can send it from another process or machine. `Table` is what is kept of many: it stays small.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile

from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json, picked, plain
from lockstep.learn.lab.findings import Curve, Findings, Picture
from lockstep.learn.lab.sweep.cells import Cell

Row = Json
Identity = tuple[tuple[str, ...], int]
"""The words that a row begins with, and how many rows before it begin with the same."""


@dataclass(frozen=True, slots=True)
class Results:
    """The results of one run, or of one point over its seeds."""

    rows: tuple[Row, ...] = ()
    """The table of the experiment."""
    ends: tuple[Row, ...] = ()
    """The last point of each curve: `label`, `theory`, and both axes under their names."""
    theory: tuple[Row, ...] = ()
    """`name`, `value`, `formula` and `source` of what theory gives."""
    picture: Picture | None = None
    """The axes of the curves."""

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self, "rows ends theory")


def results_of(found: Findings) -> Results:
    """What a sweep keeps of one run beside its checks."""
    picture = found.picture
    return Results(
        rows=tuple(plain(found.rows)),
        ends=() if picture is None else tuple(_end(curve, picture) for curve in found.curves if _ends(curve)),
        theory=tuple(plain(found.theory)),
        picture=picture,
    )


@dataclass(frozen=True, slots=True)
class Line:
    """One row over the runs that have it."""

    runs: int
    cells: Mapping[str, Cell]

    @classmethod
    def of(cls, rows: Sequence[Row]) -> Line:
        """Those of some runs; the intervals within a run give way to those between runs."""
        keys = dict.fromkeys(key for row in rows for key in row if not is_interval(key))
        return cls(len(rows), {key: Cell.of([row.get(key) for row in rows]) for key in keys})

    def __add__(self, other: Line) -> Line:
        def cell(line: Line, key: str) -> Cell:
            return line.cells.get(key) or Cell.absent(line.runs)

        keys = dict.fromkeys((*self.cells, *other.cells))
        return Line(self.runs + other.runs, {key: cell(self, key) + cell(other, key) for key in keys})

    def shown(self, seeds: int) -> Row:
        """The row, with how many of so many seeds have it where some do not."""
        found: Row = {}
        for key, cell in self.cells.items():
            found |= cell.shown(key)
        return found if self.runs == seeds else found | {"seeds": self.runs}


Table = Mapping[Identity, Line]
"""The rows of many runs, in the order of the first that has them."""


def table(runs: Sequence[Sequence[Row]]) -> Table:
    """That of some runs."""
    each = [identified(rows) for rows in runs]
    names = dict.fromkeys(name for one in each for name in one)
    return {name: Line.of([one[name] for one in each if name in one]) for name in names}


def added(one: Table, other: Table) -> Table:
    """That of the runs of both."""
    both = {name: line + other[name] if name in other else line for name, line in one.items()}
    return {**both, **{name: line for name, line in other.items() if name not in one}}


def shown(rows: Table, seeds: int) -> tuple[Row, ...]:
    """The rows over so many seeds."""
    return tuple(line.shown(seeds) for line in rows.values())


def identified(rows: Sequence[Row]) -> dict[Identity, Row]:
    """The rows of one run by what tells them apart: the same row of another run has the same identity."""
    found: dict[Identity, Row] = {}
    before: dict[tuple[str, ...], int] = {}
    for row in rows:
        words = tuple(takewhile(lambda value: isinstance(value, str), row.values()))
        found[words, before.get(words, 0)] = row
        before[words] = before.get(words, 0) + 1
    return found


def is_interval(key: str) -> bool:
    """Whether a cell is the interval of another one."""
    return "ci95" in key.split("_")


def _ends(curve: Curve) -> bool:
    """Whether the curve has a last point, or says where it diverged."""
    return bool(len(curve.x)) or curve.diverged_at is not None


def _end(curve: Curve, picture: Picture) -> Row:
    """The last point; a curve that diverged has no value there."""
    found: Row = {"label": curve.label, "theory": curve.theory}
    if curve.diverged_at is not None:
        return found | {picture.x: None, picture.y: None, f"diverged_at_{picture.x}": curve.diverged_at}
    last = float(curve.y[-1])
    found |= {picture.x: float(curve.x[-1]), picture.y: last}
    if curve.half_ci95 is not None:
        half = float(curve.half_ci95[-1])
        found[f"ci95_{picture.y}"] = [last - half, last + half]
    return found
