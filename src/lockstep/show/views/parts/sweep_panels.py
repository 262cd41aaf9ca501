"""The results of a sweep as panels of a picture: over the swept setting, one panel per unit, laws beside results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isclose
from typing import TYPE_CHECKING

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.settings import read_settings
from lockstep.learn.lab import find_experiment
from lockstep.learn.lab.sweep import Sweep, read_grid
from lockstep.learn.lab.sweep.cells import is_number
from lockstep.learn.lab.sweep.results import Identity, Row, identified, is_interval
from lockstep.show.views.parts.findings_plot import UNITS
from lockstep.show.views.parts.findings_table import cell, title

if TYPE_CHECKING:
    from lockstep.learn.lab.sweep.trial import Point as Pairs

MOST_LINES, MOST_PANELS = 6, 4
LAWS = {"law", "bound"}
"""Words in the name of a column that theory gives."""
SHARED = {
    **{ending: words for ending, words in UNITS.items() if ending != "_per_s"},
    "_bits": "bits", "_updates": "updates", "_steps": "steps", "_in_unit_roundoffs": "unit roundoffs",
}  # fmt: skip
"""Endings of names that are units: what ends alike may share an axis."""
Table = Mapping[Identity, Row]


@dataclass(frozen=True, slots=True)
class Line:
    """One result at every point that has it: (swept value, result, end of its interval below, above)."""

    label: str
    points: tuple[tuple[float, float, float, float], ...]
    place: int
    """Chooses the colour: the same for all results of a row; a law has that of its result, or -1."""
    law: bool = False
    column: int = 0
    """Chooses the marker, where a row has several results in one panel."""


@dataclass(frozen=True, slots=True)
class Panel:
    """Results in one unit."""

    unit: str
    key: str
    """The column of the first result, whose name ends on the unit."""
    title: str
    lines: tuple[Line, ...]
    results: int
    """How many there are; `lines` has the first of them."""
    law_word: str = ""
    """What the laws in the colours of their results are called."""
    log_y: bool = False


def swept_numbers(found: Sweep) -> list[float]:
    """The swept setting at every point, in SI units. Raises `BadInput` where that is no single row of numbers."""
    return _numbers(found.experiment, [point.swept for point in found.points])


def check_drawable(experiment: str, fixed: Mapping[str, object], swept: Mapping[str, object]) -> None:
    """The same refusal before anything runs."""
    _numbers(experiment, [pairs for pairs, _ in read_grid(find_experiment(experiment), fixed, swept, 1)])


def _numbers(experiment: str, points: Sequence[Pairs]) -> list[float]:
    kind = find_experiment(experiment).settings
    values = [getattr(read_settings(kind, dict(point)), name) for point in points for name, _ in point]
    numbers = [value[0] if isinstance(value, tuple) and len(value) == 1 else value for value in values]
    if len(points[0]) != 1 or len(numbers) < 2 or not all(is_number(number) for number in numbers):
        raise BadInput("a picture of many runs needs one --sweep with several numbers", "--plot")
    return [float(number) for number in numbers]


def panels(found: Sweep) -> list[Panel]:
    """The first panels: of the rows of the experiment, or of the ends of its curves where it has none."""
    x = swept_numbers(found)
    made = _of_rows(found, x) if any(point.results.rows for point in found.points) else _of_ends(found, x)
    if not made:
        raise BadInput(f"{found.experiment} has no numbers to draw", "--plot")
    return made[:MOST_PANELS]


def unit_of(key: str) -> str:
    """What must be the same for two columns to share an axis."""
    for ending in SHARED:
        if key.endswith(ending) and not key.endswith("_per_s"):
            return ending
    return "_".join(word for word in key.split("_") if word not in LAWS) or key


def _is_law(key: str) -> bool:
    words = key.split("_")
    return len(words) > 1 and not LAWS.isdisjoint(words)


def _of_rows(found: Sweep, x: Sequence[float]) -> list[Panel]:
    tables = [identified(point.results.rows) for point in found.points]
    labels = row_labels(tables)
    swept = found.points[0].swept[0][0]
    columns = [key for key in _numeric_columns(tables) if key != swept]
    changing = [key for key in columns if not _is_law(key) and any(_changes(tables, name, key) for name in labels)]
    results = changing or [key for key in columns if not _is_law(key)]
    made = []
    for unit in dict.fromkeys(unit_of(key) for key in results):
        here = [key for key in results if unit_of(key) == unit]
        laws = [key for key in columns if _is_law(key) and unit_of(key) == unit]
        made.append(_panel(unit, here, laws, x, tables, labels))
    return made


def _panel(
    unit: str,
    results: Sequence[str],
    laws: Sequence[str],
    x: Sequence[float],
    tables: Sequence[Table],
    labels: Mapping[Identity, str],
) -> Panel:
    """A line for each row and each of its results in this unit."""
    several = len(results) > 1
    lines: list[Line] = []
    # Rows that begin with other words differ most: the first of each come before the second.
    pairs = [(name, key) for name in sorted(labels, key=lambda name: name[1]) for key in results]
    for name, key in pairs[:MOST_LINES]:
        words = [labels[name], title(key) if several or not labels[name] else ""]
        row, column = pairs.index((name, results[0])) // len(results), results.index(key)
        place, column = (row, column) if len(labels) > 1 else (column, 0)
        lines.append(Line(", ".join(filter(None, words)), _points(x, tables, name, key), place, column=column))
        if key == results[0]:
            lines += [Line("", _points(x, tables, name, law), place, law=True) for law in laws]
    words_of_laws = dict.fromkeys(word for law in laws for word in law.split("_") if word in LAWS)
    called = SHARED.get(unit, unit.replace("_", " ")) if several else title(results[0])
    shown = tuple(line for line in lines if line.points)
    log_y = unit != "_frac" and _wide(shown)
    return Panel(unit, results[0], called, shown, len(pairs), " or ".join(words_of_laws), log_y)


def _of_ends(found: Sweep, x: Sequence[float]) -> list[Panel]:
    """One panel: the last values of the curves, and of the laws that end at the same place."""
    picture = found.points[0].results.picture
    if picture is None:
        return []
    tables = [identified(point.results.ends) for point in found.points]
    rows = {name: row for table in reversed(tables) for name, row in table.items()}
    order = dict.fromkeys(name for table in tables for name in table)
    curves = [name for name in order if not rows[name]["theory"]]
    theory = [name for name in order if rows[name]["theory"]]
    paired = len(curves) == len(theory)
    lines = []
    for place, name in enumerate(curves[:MOST_LINES]):
        lines.append(Line(name[0][0], _points(x, tables, name, picture.y), place))
        beside = theory[place : place + 1] if paired else theory if place == 0 else []
        for law in beside:
            if _end_together(tables, [name] if paired else curves, law, picture.x):
                label = "" if paired else law[0][0]
                lines.append(Line(label, _points(x, tables, law, picture.y), place if paired else -1, law=True))
    ends = {row[picture.x] for table in tables for name, row in table.items() if name in curves} - {None}
    where = f"at {title(picture.x)} {cell(picture.x, ends.pop())}" if len(ends) == 1 else "at the end of the curve"
    words = dict.fromkeys(name[0][0].rpartition(", ")[2] for name in theory)
    called = f"{title(picture.y)}, {where}"
    shown = tuple(line for line in lines if line.points)
    law_word = (next(iter(words)) if len(words) == 1 else "law") if paired else ""
    return [
        Panel(unit_of(picture.y), picture.y, called, shown, len(curves), law_word, picture.log_y and _positive(lines))
    ]


def _end_together(tables: Sequence[Table], curves: Sequence[Identity], law: Identity, key: str) -> bool:
    """Whether a law ends where a curve does at every point: only then are their last values comparable."""
    for table in tables:
        ends = [table[name].get(key) for name in curves if name in table]
        last = table[law].get(key) if law in table else None
        if last is not None and not any(end is not None and isclose(end, last, rel_tol=1e-9) for end in ends):
            return False
    return True


def row_labels(tables: Sequence[Table]) -> dict[Identity, str]:
    """What each row is called: its first words, then the numbers that tell it from others at every point."""
    names = list(dict.fromkeys(name for table in tables for name in table))
    labels = {name: ", ".join(name[0]) for name in names}
    for key in _numeric_columns(tables):
        if len(set(labels.values())) == len(names):
            return labels
        values = {name: _values(tables, name, key) for name in names}
        if all(len(some) == 1 for some in values.values()) and len(set(map(tuple, values.values()))) > 1:
            for name in names:
                labels[name] += f"{', ' if labels[name] else ''}{title(key)} {cell(key, next(iter(values[name])))}"
    if len(set(labels.values())) < len(names):
        labels = {name: f"{label}{', ' if label else ''}row {name[1] + 1}" for name, label in labels.items()}
    return labels


def _numeric_columns(tables: Iterable[Table]) -> list[str]:
    """Columns with numbers; none of intervals or of counts of seeds."""
    rows = [row for table in tables for row in table.values()]
    return list(
        dict.fromkeys(
            key for row in rows for key, value in row.items()
            if is_number(value) and not is_interval(key) and key != "seeds" and not key.startswith("seeds_")
        )
    )  # fmt: skip


def _values(tables: Sequence[Table], name: Identity, key: str) -> dict[object, None]:
    return dict.fromkeys(table[name].get(key) for table in tables if name in table)


def _changes(tables: Sequence[Table], name: Identity, key: str) -> bool:
    """Whether a result differs between points or between seeds."""
    within = any(f"ci95_{key}" in table[name] for table in tables if name in table)
    return within or len(_values(tables, name, key)) > 1


def _points(
    x: Sequence[float], tables: Sequence[Table], name: Identity, key: str
) -> tuple[tuple[float, float, float, float], ...]:
    found = []
    for where, table in zip(x, tables, strict=True):
        value = table[name].get(key) if name in table else None
        if value is not None and is_number(value):
            low, high = table[name].get(f"ci95_{key}", (value, value))
            found.append((where, float(value), float(low), float(high)))
    return tuple(sorted(found))


def _positive(lines: Sequence[Line]) -> bool:
    return all(point[1] > 0 for line in lines for point in line.points)


def _wide(lines: Sequence[Line]) -> bool:
    """Whether a logarithmic axis shows more."""
    values = [point[1] for line in lines for point in line.points]
    return bool(values) and min(values) > 0 and max(values) >= 30 * min(values)
