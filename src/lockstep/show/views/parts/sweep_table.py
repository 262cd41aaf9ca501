"""A sweep of an experiment for a person: verdict, results at every point, then the checks that strain most."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.text import Text

from lockstep.learn.lab.sweep.cells import is_number
from lockstep.learn.lab.sweep.results import Results, Row, identified, is_interval
from lockstep.show.views.parts.findings_table import cell, title, with_interval
from lockstep.show.views.parts.terminal import heading, indented, table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import Console

    from lockstep.learn.lab.sweep import Point, Pooled, Sweep

POINTS = 14
CHECKS = 8
RESULTS, LAWS = 20, 8
LEFT_OUT = 5
WORDS = 24
"""Cells of a column of words that may stand on several lines."""


def render_sweep(found: Sweep, out: Console) -> None:
    """Prints the sweep."""
    sentence = found.verdict[0].upper() + found.verdict[1:]
    out.print(Text(sentence, style="bold green" if found.agrees else "bold red"))
    seeds = found.points[0].seeds
    points = f"{len(found.points)} point{'s' * (len(found.points) > 1)}"
    if found.stopped:
        out.print(Text(f"Stopped after {found.runs:,} of {found.asked:,} runs: {found.stopped}.", style="bold"))
    for name, why in found.left_out[:LEFT_OUT]:
        out.print(Text(f"Left out: {name} {why}.", style="bold"))
    out.print(f"{found.runs:,} runs: {points}, {seeds} seed{'s' * (seeds > 1)} each, from {found.seed} on.")
    _results(found, out)
    if found.points[0].swept:
        _points(found, out)
    _checks(found, out)
    out.print(Text(f"\nSource: {found.source}", style="dim"))


def _results(found: Sweep, out: Console) -> None:
    """The rows of the experiment, or the ends of its curves where it has none, and what theory gives."""
    results = found.points[0].results
    rows = _by_result(found, lambda one: one.rows)
    if rows:
        keys = [key for key in rows[0][1] if not is_interval(key) and key not in _hidden(found, rows)]
        _table(found, out, "Results", rows, keys, RESULTS)
    elif results.picture is not None:
        x, y = results.picture.x, results.picture.y
        ends = _by_result(found, lambda one: one.ends)
        diverged = [f"diverged_at_{x}"] if any(f"diverged_at_{x}" in row for _, row in ends) else []
        _table(found, out, "Ends of the curves", ends, ["label", x, y, *diverged], RESULTS)
    laws = _by_result(found, lambda one: one.theory)
    if laws:
        _table(found, out, "Theory", laws, ["name", "value"], LAWS)


def _by_result(found: Sweep, rows_of: Callable[[Results], Sequence[Row]]) -> list[tuple[Point, Row]]:
    """The same result at all points below one another."""
    tables = [identified(rows_of(point.results)) for point in found.points]
    names = dict.fromkeys(name for one in tables for name in one)
    pairs = [zip(found.points, tables, strict=True) for _ in names]
    return [(point, one[name]) for name, some in zip(names, pairs, strict=True) for point, one in some if name in one]


def _hidden(found: Sweep, rows: Sequence[tuple[Point, Row]]) -> set[str]:
    """Columns that the swept settings show already."""
    return {name for name, _ in found.points[0].swept} & set(rows[0][1])


def _table(
    found: Sweep, out: Console, called: str, rows: Sequence[tuple[Point, Row]], keys: Sequence[str], most: int
) -> None:
    """Swept settings first, then the columns of `keys`, with half of an interval behind each mean."""
    shown = rows[:most]
    columns = [(title(name), "right") for name, _ in found.points[0].swept]
    columns += [("" if key in ("label", "name") else title(key), _kind(key, shown)) for key in keys]
    cells = [[*(str(value) for _, value in point.swept), *(_shown(key, row) for key in keys)] for point, row in shown]
    kept = _fitting(columns, cells, out.width - 2)
    more = [(len(rows) - most, "row"), (len(columns) - kept, "column")]
    said = " and ".join(f"{number} more {what}{'s' * (number > 1)}" for number, what in more if number > 0)
    heading(out, called, f"{said} with --json" if said else "")
    indented(out, table(columns[:kept], [row[:kept] for row in cells]))


def _fitting(columns: Sequence[tuple[str, str]], cells: Sequence[Sequence[str]], width: int) -> int:
    """How many columns stand side by side uncut, long words on several lines."""
    used = 0
    for place, (head, kind) in enumerate(columns):
        needed = max(cell_len(word) for word in (head, *(row[place] for row in cells)))
        used += 2 + (needed if kind == "right" else min(needed, WORDS))
        if used > width:
            return max(place, 1)
    return len(columns)


def _kind(key: str, rows: Sequence[tuple[Point, Row]]) -> str:
    return "right" if any(is_number(row.get(key)) for _, row in rows) else "text"


def _shown(key: str, row: Row) -> str:
    """A cell with its interval, and the number of seeds that it is from where not all have it."""
    value = row.get(key)
    if isinstance(value, list):
        return cell(key, value)
    words = with_interval(key, {**row, key: value})
    counted = row.get(f"seeds_{key}")
    return words if counted is None else f"{words} ({counted} seeds)"


def _points(found: Sweep, out: Console) -> None:
    """How many runs agree at each point, and how far the worst mean is from its law."""
    more = len(found.points) - POINTS
    heading(out, "Points", f"{more} more with --json" if more > 0 else "")
    keys = [title(name) for name, _ in found.points[0].swept]
    columns = [(key, "right") for key in keys] + [("runs that agree", "right"), ("worst mean", "text")]
    rows = [
        [*(str(value) for _, value in point.swept), f"{point.agreeing} of {point.seeds}", _worst(point)]
        for point in found.points[:POINTS]
    ]
    indented(out, table(columns, rows))


def _worst(point: Point) -> str:
    laws = [pooled for pooled in point.checks if pooled.check.relation == "equals" and not pooled.check.false_law]
    random = [pooled for pooled in laws if pooled.check.standard_error]
    if not random:
        return "nothing is random"
    worst = max(random, key=_errors)
    return f"{_errors(worst):.2g} standard errors: {worst.check.what}"


def _errors(pooled: Pooled) -> float:
    """Distance of mean and law in standard errors of the mean."""
    check = pooled.check
    return abs(check.got - check.expected) / check.standard_error


def _checks(found: Sweep, out: Console) -> None:
    """Means with their intervals, what failed and what strains most first."""
    pooled = [(point, one) for point in found.points for one in point.checks]
    ordered = sorted(pooled, key=lambda pair: (pair[1].check.ok, -pair[1].check.strain))
    more = len(ordered) - CHECKS
    heading(out, "Theory and means over seeds", f"{more} more with --json" if more > 0 else "")
    columns = [("", "text"), ("theory", "right"), ("mean", "right"), ("95 % interval", "right"), ("", "left")]
    rows: list[list[str | Text]] = []
    for point, one in ordered[:CHECKS]:
        where = ", ".join(f"{name} = {value}" for name, value in point.swept)
        low, high = one.ci95
        said = "rejected, as expected" if one.check.false_law else "agrees"
        mark = Text(said, style="green") if one.check.ok else Text("no", style="red")
        name = f"{one.check.what} ({where})" if where else one.check.what
        expected, got = one.check.printed(4)
        rows.append([name, expected, got, f"{low:.4g} to {high:.4g}", mark])
    indented(out, table(columns, rows))
