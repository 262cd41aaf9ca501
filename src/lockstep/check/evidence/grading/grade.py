"""`grade`: a student's table against the truth, with the rows that are off, by how much, and the likeliest mistake."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json, picked, plain
from lockstep.check.evidence.grading.columns import Place, places, unit_of
from lockstep.check.evidence.grading.likeliest import Explained, Written, explain, hidden_mistake
from lockstep.check.evidence.grading.reading import Cell, Raw, comma_is_decimal, names, read_cell, read_table
from lockstep.check.evidence.grading.sheet import UNITS, Column, Drawn
from lockstep.check.evidence.grading.sheets import sheet_of

TOLERANCE_FRAC = 0.01
SAME_ROW_FRAC = 5e-3
ROUNDED = 0.00051
"""Half of the third decimal: a share that is written with three of them is right to it."""
NOTHING = 1e-6
"""A share that nobody tells from none."""
Given = str | Path | Sequence[Mapping[str, object]]


@dataclass(frozen=True, slots=True)
class Value:
    """One value of the table, in SI units."""

    line: int
    row: str
    """What the row is about."""
    column: str
    unit: str
    given: float
    right: float
    ok: bool

    @property
    def factor(self) -> float | None:
        """Given over right; None where the right one is 0."""
        return self.given / self.right if self.right else None

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self, "line row column given right factor ok")


@dataclass(frozen=True)
class Grade:
    """What came of a table."""

    drawn: Drawn
    tolerance_frac: float
    values: tuple[Value, ...]
    missing: tuple[str, ...]
    """Rows of the sheet that the table lacks."""
    mistakes: tuple[Explained, ...]
    within: bool = False
    """Whether the mistake lies within the tolerance and was told by the digits alone."""
    notes: tuple[str, ...] = ()

    @property
    def off(self) -> tuple[Value, ...]:
        """Values outside of the tolerance."""
        return tuple(one for one in self.values if not one.ok)

    @property
    def ok(self) -> bool:
        """Whether the table is right."""
        return not self.off and not self.missing and not self.within

    def to_dict(self) -> Json:
        """Plain JSON form, in SI units."""
        return {
            "exercise": self.drawn.sheet.id,
            **picked(self, "ok tolerance_frac within missing notes"),
            "seed": self.drawn.seed,
            "parameters": dict(self.drawn.givens),
            "values": plain(self.values),
            "off": len(self.off),
            "mistakes": [picked(one, "words rows of columns also") for one in self.mistakes],
        }


def grade(
    item: str, table: Given, seed: int | None = None, tolerance_frac: float | None = None, told: Sequence[str] = ()
) -> Grade:
    """Grades the table of an exercise by its id, such as C.4.

    `seed`: the student's; None for the numbers of the statement. `told`: columns as `theirs=ours`. A tolerance that is
    given is the last word; without one, 1 % is allowed, and a known mistake that hides in it is told by the digits.
    Raises BadInput where the table cannot be read.
    """
    allowed = TOLERANCE_FRAC if tolerance_frac is None else tolerance_frac
    drawn, raw = sheet_of(item).for_student(seed), read_table(table)
    where = places(drawn.sheet, raw, told)
    cells = _cells(drawn, raw, where)
    lines, notes = _lines(drawn, raw, where, cells)
    written = _written(drawn, cells, lines)
    off = {one.name: _off(one, drawn, written, allowed) for one in drawn.sheet.asked}
    values = tuple(_values(drawn, raw, lines, written, off))
    missing = tuple(row_name(drawn, row) for row, line in enumerate(lines) if line is None)
    mistakes = explain(drawn, written, off, allowed)
    hidden = None
    if not any(cells.any() for cells in off.values()):
        hidden = hidden_mistake(drawn, written)
    named = (hidden,) if hidden else mistakes
    within = hidden is not None and tolerance_frac is None
    return Grade(drawn, allowed, values, missing, named, within, (*notes, *_unread(drawn, raw, where)))


def _cells(drawn: Drawn, raw: Raw, where: Mapping[str, Place]) -> dict[str, list[Cell]]:
    """Numbers in SI units by column, one for each line."""
    decimal_comma = comma_is_decimal(raw)
    found: dict[str, list[Cell]] = {}
    for column in drawn.sheet.columns:
        if column.name in where:
            place = where[column.name]
            found[column.name] = [
                _in_si(
                    column,
                    read_cell(cells[place.index], decimal_comma, raw.header[place.index], raw.where(line)),
                    place.unit,
                    raw.where(line),
                )
                for line, cells in raw.rows
            ]
    return found


def _in_si(column: Column, cell: Cell, unit: str, where: str) -> Cell:
    """A number in SI units: by the unit in the cell, that of the header, or that of the sheet."""
    chosen = unit or column.unit
    if cell.unit:
        chosen = unit_of(column, cell.unit)
        if not chosen:
            some = names(dict.fromkeys([column.unit, *UNITS[column.kind]][:6])) or "no unit"
            raise BadInput(f"{cell.unit!r} is no unit of {column.name}; it takes {some}", where)
    factor = UNITS[column.kind].get(chosen, 1.0)
    return Cell(cell.value * factor, cell.half * factor, chosen)


def _lines(
    drawn: Drawn, raw: Raw, where: Mapping[str, Place], cells: Mapping[str, Sequence[Cell]]
) -> tuple[list[int | None], list[str]]:
    """Of each row of the sheet its place in the table, None where it is missing; and what is to be said of that."""
    known = [one.name for one in drawn.sheet.inputs if one.name in where]
    if not known:
        if len(raw.rows) != len(drawn.rows):
            wanted = names(one.header for one in drawn.sheet.inputs)
            raise BadInput(
                f"no column for {wanted}, and {len(raw.rows)} rows where the sheet has {len(drawn.rows)}",
                raw.where(raw.first_line),
            )
        return [*range(len(raw.rows))], ["no column says what the rows are about: taken in the order of the sheet"]
    key = known[:1] if len(known) == 1 or _tells(drawn, known[0]) else known
    found: list[int | None] = []
    for row in drawn.rows:
        same = [at for at in range(len(raw.rows)) if all(_same(cells[name][at], row[name]) for name in key)]
        if len(same) > 1:
            raise BadInput(f"says what line {raw.rows[same[0]][0]} says too", raw.where(raw.rows[same[1]][0]))
        found.append(same[0] if same else None)
    extra = [str(raw.rows[at][0]) for at in range(len(raw.rows)) if at not in found]
    if all(line is None for line in found):
        first = drawn.sheet.inputs[0]
        wanted = names(first.written(row[first.name]) for row in drawn.rows)
        unit = f" {first.unit}" if first.unit else ""
        raise BadInput(f"no row is one of this sheet; {first.name} is {wanted}{unit}", raw.where(raw.first_line))
    return found, [f"not asked for and not graded: line {', '.join(extra)}"] if extra else []


def _tells(drawn: Drawn, name: str) -> bool:
    """Whether an input alone tells the rows apart."""
    return len({row[name] for row in drawn.rows}) == len(drawn.rows)


def _same(cell: Cell, wanted: float) -> bool:
    return math.isclose(cell.value, wanted, rel_tol=SAME_ROW_FRAC, abs_tol=1e-12)


def _written(drawn: Drawn, cells: Mapping[str, Sequence[Cell]], lines: Sequence[int | None]) -> Written:
    """Values in the order of the sheet."""
    asked = [one.name for one in drawn.sheet.asked]
    values = {name: np.array([math.nan if at is None else cells[name][at].value for at in lines]) for name in asked}
    halves = {name: np.array([0.0 if at is None else cells[name][at].half for at in lines]) for name in asked}
    return Written(values, halves)


def _off(column: Column, drawn: Drawn, written: Written, tolerance_frac: float) -> np.ndarray:
    """Which values are outside of the tolerance; shares that are right to three decimals are not."""
    truth, values, halves = drawn.truth[column.name], written.values[column.name], written.halves[column.name]
    apart = np.abs(values - truth)
    near = apart <= tolerance_frac * np.abs(truth) + 1e-12
    if column.kind == "share":
        near |= ((apart <= 1.001 * halves) & (halves <= ROUNDED)) | (apart <= NOTHING)
    return np.asarray(~near & ~np.isnan(values))


def row_name(drawn: Drawn, row: int) -> str:
    """What a row is about."""
    return ", ".join(f"{one.name} {one.shown(drawn.rows[row][one.name])}" for one in drawn.sheet.inputs)


def _values(
    drawn: Drawn, raw: Raw, lines: Sequence[int | None], written: Written, off: Mapping[str, np.ndarray]
) -> list[Value]:
    return [
        Value(
            raw.rows[at][0],
            row_name(drawn, row),
            one.name,
            one.unit,
            float(written.values[one.name][row]),
            float(drawn.truth[one.name][row]),
            not off[one.name][row],
        )
        for row, at in enumerate(lines)
        if at is not None
        for one in drawn.sheet.asked
    ]


def _unread(drawn: Drawn, raw: Raw, where: Mapping[str, Place]) -> list[str]:
    used = {place.index for place in where.values()}
    rest = [title for at, title in enumerate(raw.header) if at not in used and title]
    bare = [
        f"{raw.header[where[one.name].index]} has no unit: taken as {one.unit}"
        for one in drawn.sheet.columns
        if one.unit and one.name in where and not where[one.name].unit and one.kind != "share"
    ]
    return bare + ([f"columns that are not graded: {names(rest)}"] if rest else [])
