"""An experiment of the lab for a person: verdict, checks worst first, rows or the ends of the curves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text

from lockstep.base.units import format_bandwidth, format_frac, format_size, format_time
from lockstep.show.views.parts.terminal import heading, indented, small_print, table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console
    from rich.table import Table

    from lockstep.learn.lab import Check, Curve, Findings

CHECKS = 8
EXAMPLES = 5
LEFT_OUT = 8
DIGITS = 4
ROWS = 14
CURVES = 8


def render_findings(found: Findings, out: Console) -> None:
    """Prints the findings."""
    sentence = found.verdict[0].upper() + found.verdict[1:]
    out.print(Text(sentence, style="bold green" if found.agrees else "bold red"))
    if found.conclusion:
        out.print(found.conclusion[0].upper() + found.conclusion[1:] + ".")
    _checks([check for check in found.checks if not check.holds.example], out)
    if found.rows:
        _rows(found.rows, out)
    elif found.picture is not None and found.curves:
        _curves(found, out)
    _examples([check for check in found.checks if check.holds.example], out)
    _left_out(found.left_out, out)
    small_print(out, "Assumptions", found.assumptions, len(found.assumptions))
    out.print(Text(f"\nSource: {found.source}", style="dim"))


def _checks(checks: Sequence[Check], out: Console) -> None:
    """Law beside simulation, what failed and what is furthest off first."""
    if not checks:
        return
    more = len(checks) - CHECKS
    heading(out, "Theory and simulation", f"{more} more with --json" if more > 0 else "")
    indented(out, checks_table(_worst_first(checks)[:CHECKS]))


def _examples(checks: Sequence[Check], out: Console) -> None:
    """Checks of problems that are printed somewhere, with their numbers."""
    if not checks:
        return
    more = len(checks) - EXAMPLES
    counted = f"; {more} more with --json" if more > 0 else ""
    heading(out, "Examples", f"with their own numbers, which --set does not change{counted}")
    indented(out, checks_table(_worst_first(checks)[:EXAMPLES]))


def _left_out(checks: Sequence[Check], out: Console) -> None:
    """Checks that say nothing about these settings, and what they are for."""
    if not checks:
        return
    more = len(checks) - LEFT_OUT
    heading(out, "Not applicable to these settings", f"{more} more with --json" if more > 0 else "")
    rows: list[list[str | Text]] = [[check.what, Text(check.holds.words, style="dim")] for check in checks[:LEFT_OUT]]
    indented(out, table([("", "text"), ("holds for", "text")], rows))


def _worst_first(checks: Sequence[Check]) -> list[Check]:
    return sorted(checks, key=lambda check: (check.ok, -check.strain))


def checks_table(checks: Sequence[Check]) -> Table:
    """A row per check: what the law gives, what the simulation gave, and what was said of it."""
    columns = [("", "text"), ("theory", "right"), ("simulated", "right"), ("allowed", "right"), ("", "left")]
    rows: list[list[str | Text]] = []
    for one in checks:
        expected, got = one.printed(DIGITS)
        sign = {"at most": "≤ ", "at least": "≥ "}.get(one.relation, "")
        rows.append([_what(one), sign + expected, got, f"± {one.allowed:.2g}", _said(one)])
    return table(columns, rows)


def _what(check: Check) -> str | Text:
    """The name of a check; of an example with its numbers."""
    if not check.holds.example:
        return check.what
    return Text.assemble(check.what, (f" ({check.holds.words})", "dim"))


def _said(check: Check) -> Text:
    good = "rejected, as expected" if check.false_law else "agrees"
    return Text(good, style="green") if check.ok else Text("no", style="red")


def _rows(rows: Sequence[Mapping[str, object]], out: Console) -> None:
    more = len(rows) - ROWS
    heading(out, "Results", f"{more} more with --json" if more > 0 else "")
    keys = [key for key in rows[0] if key.removeprefix("ci95_") == key or key.removeprefix("ci95_") not in rows[0]]
    columns = [(title(key), "right" if _numeric(rows[0][key]) else "left") for key in keys]
    indented(out, table(columns, [[with_interval(key, row) for key in keys] for row in rows[:ROWS]]))


def with_interval(key: str, row: Mapping[str, Any]) -> str:
    """A cell, with half of its interval where the row has one under `ci95_` and its key."""
    interval, shown = row.get(f"ci95_{key}"), cell(key, row[key])
    if interval is None or row[key] is None:
        return shown
    half = cell(key, float(f"{(interval[1] - interval[0]) / 2:.2g}"))
    number, _, unit = shown.rpartition(" ")
    return f"{number} ± {half}" if number and half.endswith(f" {unit}") else f"{shown} ± {half}"


def _curves(found: Findings, out: Console) -> None:
    """First and last point of every simulated curve."""
    picture = found.picture
    if picture is None:
        return
    shown = [curve for curve in found.curves if not curve.theory and len(curve.x)]
    more = len(shown) - CURVES
    heading(
        out, f"{title(picture.y)} over {title(picture.x)}".capitalize(), f"{more} more with --json" if more > 0 else ""
    )
    columns = [
        ("", "text"),
        ("first", "right"),
        ("value", "right"),
        ("last", "right"),
        ("value", "right"),
        ("", "left"),
    ]
    indented(out, table(columns, [_ends(curve) for curve in shown[:CURVES]]))


def _ends(curve: Curve) -> list[str | Text]:
    ends = [_number(float(value)) for value in (curve.x[0], curve.y[0], curve.x[-1], curve.y[-1])]
    diverged = "" if curve.diverged_at is None else f"diverged at {_number(curve.diverged_at)}"
    return [curve.label, *ends, Text(diverged, style="red")]


def title(key: str) -> str:
    """A key as a heading: the unit is shown with each value, or needs none."""
    if not key.endswith("_per_s"):
        for ending in ("_frac", "_Bps", "_B", "_s"):
            key = key.removesuffix(ending)
    return key.replace("_", " ")


def _numeric(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def cell(key: str, value: Any) -> str:
    """A value in the unit that its key names."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(cell(key, one) for one in value)
    if not _numeric(value):
        return str(value)
    for ending, form in (("_frac", format_frac), ("_Bps", format_bandwidth), ("_B", format_size), ("_s", format_time)):
        if key.endswith(ending) and not key.endswith("_per_s"):
            return form(float(value))
    return f"{value:,}" if isinstance(value, int) else _number(value)


def _number(value: float) -> str:
    return f"{value:.{DIGITS}g}"
