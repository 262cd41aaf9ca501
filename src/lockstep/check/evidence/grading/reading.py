"""Tables as students write them: commas, semicolons, tabs or bars between columns, points or commas in decimals.

What cannot be read is refused with its line; a comma that may separate decimals or thousands is never guessed.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path

from lockstep.base.documents.files import read_text
from lockstep.base.errors import BadInput, shown
from lockstep.base.records import dataclass

MOST_B = 4_000_000
MOST_ROWS = 10_000
SEPARATORS = (";", "\t", "|", ",")
CELL = re.compile(r"\s*([+\-\u2212]?[\d.,][\d.,'\u2019\u00a0\u202f]*(?:[eE][+\-\u2212]?\d+)?)\s*(\S.*?)?\s*", re.DOTALL)
THOUSANDS = re.compile(r"[1-9]\d{0,2}(,\d{3})+")
POINTS = re.compile(r"[1-9]\d{0,2}(\.\d{3}){2,}")
RULE = re.compile(r"[\s|:+-]+")


@dataclass(frozen=True)
class Raw:
    """A table of text."""

    name: str
    """How messages call it: the file."""
    header: tuple[str, ...]
    rows: tuple[tuple[int, tuple[str, ...]], ...]
    """Line and cells of each."""
    separator: str = ""
    first_line: int = 1

    def where(self, line: int) -> str:
        """The place of a line."""
        return f"{self.name}:{line}"


@dataclass(frozen=True, slots=True)
class Cell:
    """A number as it is written: its value, half of its last digit, and the unit beside it."""

    value: float
    half: float
    unit: str


def read_table(given: str | Path | Sequence[Mapping[str, object]]) -> Raw:
    """A table from a file, or from rows of a program. Raises BadInput with the line."""
    if isinstance(given, str | Path):
        return parse_table(read_text(given, MOST_B), str(given))
    rows = [*given]
    if not rows or not all(isinstance(row, Mapping) for row in rows):
        raise BadInput("expected rows, each a mapping of columns to values, or the path of a file", "check")
    header = tuple(str(name) for name in rows[0])
    if any(tuple(map(str, row)) != header for row in rows):
        raise BadInput("all rows must have the same columns", "check")
    cells = ((place, tuple(map(str, row.values()))) for place, row in enumerate(rows, 1))
    return Raw("row", header, tuple(cells))


def parse_table(text: str, name: str) -> Raw:
    """The table in a text."""
    lines = [(at, line) for at, line in enumerate(text.removeprefix("\ufeff").splitlines(), 1) if _says(line)]
    if len(lines) < 2:
        raise BadInput("expected a line of column names and a line for each row", name)
    at, first = lines[0]
    separator = next((one for one in SEPARATORS if one in first), ",")
    header = _cells(first, separator, f"{name}:{at}")
    if len(lines) > MOST_ROWS:
        raise BadInput(f"has {len(lines) - 1} rows; at most {MOST_ROWS} are read", name)
    rows = [(at, _cells(line, separator, f"{name}:{at}")) for at, line in lines[1:]]
    found = [(at, cells) for at, cells in rows if any(cells)]
    for at, cells in found:
        if len(cells) != len(header):
            more = "; decimal commas need ; or tabs between columns" if separator == "," else ""
            raise BadInput(f"has {len(cells)} cells where the header has {len(header)}{more}", f"{name}:{at}")
    if not found:
        raise BadInput("has column names and no rows", name)
    return Raw(name, header, tuple(found), separator, lines[0][0])


def _says(line: str) -> bool:
    """Whether a line is part of the table: no remark, no rule of a Markdown table, not empty."""
    plain = line.strip()
    return bool(plain) and not plain.startswith(("#", "sep=")) and not RULE.fullmatch(plain)


def _cells(line: str, separator: str, where: str) -> tuple[str, ...]:
    if separator == "|":
        return tuple(cell.strip() for cell in line.strip().strip("|").split("|"))
    try:
        (cells,) = csv.reader(io.StringIO(line), delimiter=separator, skipinitialspace=True, strict=True)
    except (csv.Error, ValueError):
        raise BadInput(f"cannot be read as cells: {shown(line)}", where) from None
    return tuple(cell.strip() for cell in cells)


def comma_is_decimal(raw: Raw) -> bool:
    """Whether commas in numbers stand for decimal points. Raises BadInput where that cannot be told."""
    written = [(line, number) for line, cells in raw.rows for cell in cells if "," in (number := _number(cell))]
    decimal = [one for one in written if not THOUSANDS.fullmatch(one[1]) and not _both(one[1], ",", ".")]
    grouped = [one for one in written if _both(one[1], ",", ".") or one[1].count(",") > 1]
    if decimal and grouped:
        line, number = max(decimal[0], grouped[0])
        raise BadInput(
            f"{shown(number)}: commas separate decimals in one place and thousands in another", raw.where(line)
        )
    if not written or grouped:
        return False
    points = any("." in _number(cell) for _, cells in raw.rows for cell in cells)
    if decimal or (raw.separator == ";" and not points):
        return True
    line, number = written[0]
    raise BadInput(
        f"{shown(number)} may be {number.replace(',', '.')} or {number.replace(',', '')}; write one of them",
        raw.where(line),
    )


def _both(number: str, first: str, last: str) -> bool:
    """Whether both marks are there, in this order."""
    return 0 <= number.find(first) < number.rfind(last)


def _number(cell: str) -> str:
    match = CELL.fullmatch(cell)
    return match[1].lstrip("+-\u2212").partition("e")[0].partition("E")[0] if match else ""


def read_cell(text: str, decimal_comma: bool, what: str, where: str) -> Cell:
    """The number in a cell. Raises BadInput with the place."""
    match = CELL.fullmatch(text)
    if match is None:
        raise BadInput(f"{what}: {shown(text)} is no number" if text else f"{what} is empty", where)
    plain = re.sub(r"['\u2019\u00a0\u202f]", "", match[1]).replace("\u2212", "-")
    if decimal_comma and POINTS.fullmatch(plain.partition(",")[0].lstrip("+-")):
        plain = plain.replace(".", "")
    if decimal_comma and "," in plain:
        plain = plain.replace(".", "").replace(",", ".")
    plain = plain.replace(",", "")
    try:
        exact = Decimal(plain)
    except InvalidOperation:
        raise BadInput(f"{what}: {shown(text)} is no number", where) from None
    if not math.isfinite(float(exact)):
        raise BadInput(f"{what}: {shown(text)} is not finite", where)
    exponent = exact.as_tuple().exponent
    half = 0.5 * 10.0 ** max(min(exponent, 300), -300) if isinstance(exponent, int) else 0.0
    return Cell(float(exact), half, (match[2] or "").strip())


def names(columns: Iterable[str]) -> str:
    """Column names in a message."""
    return ", ".join(columns)
