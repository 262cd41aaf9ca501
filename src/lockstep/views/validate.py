"""`lockstep validate`: published measurements against predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from rich.text import Text

from lockstep.units import format_frac
from lockstep.views.parts.command import Command
from lockstep.views.parts.terminal import heading, indented, table

if TYPE_CHECKING:
    from rich.console import Console

    from lockstep.validation import Report, StackReport, TableReport


WORST_OF_ALL = 8
WORST_OF_EACH = 3
_TITLES = [("table", "left"), ("rows", "right"), ("mean", "right"), ("median", "right"), ("max", "right")]
_TITLES += [("unseen", "right"), ("inside", "right"), ("const", "right"), ("limit", "right"), ("", "left")]
_BY_STACK = [("software", "left"), ("rows", "right"), ("median", "right"), ("unseen", "right"), ("90 %", "right")]
_BY_STACK += [("mean", "right"), ("inside", "right")]


def render(report: Report, out: Console) -> None:
    """Prints the report."""
    tables = report.tables
    good = sum(one.ok for one in tables)
    style = "bold green" if report.ok else "bold red"
    out.print(Text(f"{good} of {len(tables)} tables within tolerance", style=style))
    if len(report.stacks) > 1 and report.unseen_median_frac is not None:
        said = format_frac(report.unseen_median_frac, 2)
        inside = _share(report.coverage_frac)
        what = f"where none of it was fitted to: median error {said}, {inside} inside the 90 % interval"
        heading(out, "Steps by software", what)
        indented(out, table(_BY_STACK, (_by_stack(one) for one in report.stacks)))
        out.print(Text("  unseen, 90 %, mean, inside: of a fit without any row of that software", style="dim"))
    heading(out, "Errors", "predicted / measured - 1; positive is too slow or too much memory")
    indented(out, table(_TITLES, (_numbers(one) for one in tables)))
    out.print(Text("  unseen: median error of a fit without any row of the same software", style="dim"))
    out.print(Text("  inside: share of steps inside the 90 % interval of that fit", style="dim"))
    out.print(Text("  const: median error of the best single efficiency, MFU or HFU, of each table", style="dim"))
    _worst(report, out)
    if len(tables) == 1:
        out.print(Text(f"\nSource: {tables[0].table.source}", style="dim"))


def _numbers(one: TableReport) -> list[str | Text]:
    """Rows, mean signed, median and largest error, that of one constant, and what is allowed."""
    sizes = np.abs(one.fracs)
    constants = [frac for frac in (one.constant_mfu_frac, one.constant_hfu_frac) if frac is not None]
    return [
        one.table.name,
        str(len(one.errors)),
        _signed(float(np.mean(one.fracs))),
        format_frac(one.median_abs_frac, 2),
        format_frac(float(np.max(sizes)), 2),
        _share(one.unseen_median_frac),
        _share(one.coverage_frac),
        format_frac(min(constants), 2) if constants else "",
        format_frac(one.table.tolerance_frac, 2),
        Text("ok", style="green") if one.ok else Text("no", style="red"),
    ]


def _by_stack(one: StackReport) -> list[str]:
    """Rows, median error, then median, 90th percentile and mean of what the fit had no part in."""
    sizes = np.abs(one.unseen_fracs)
    return [
        one.stack,
        str(len(one.fracs)),
        format_frac(float(np.median(np.abs(one.fracs))), 2),
        format_frac(float(np.median(sizes)), 2),
        format_frac(float(np.quantile(sizes, 0.9)), 2),
        _signed(float(np.mean(one.unseen_fracs))),
        _share(one.coverage_frac),
    ]


def _share(frac: float | None) -> str:
    return "" if frac is None else format_frac(frac, 2)


def _worst(report: Report, out: Console) -> None:
    """The rows that are furthest off, some of every table."""
    each = WORST_OF_ALL if len(report.tables) == 1 else WORST_OF_EACH
    pairs = [(error, one.table.name) for one in report.tables for error in one.errors[:each]]
    pairs.sort(key=lambda pair: -abs(pair[0].error_frac))
    heading(out, "Worst rows")
    rows = (
        (_signed(error.error_frac), name, error.row + (f" ({error.note})" if error.note else ""))
        for error, name in pairs[:WORST_OF_ALL]
    )
    indented(out, table([("error", "right"), ("table", "left"), ("row", "line")], rows))


def _signed(frac: float) -> str:
    return ("+" if frac > 0 else "") + format_frac(frac, 2)


COMMAND = Command(
    examples=(
        "lockstep validate",
        "lockstep validate narayanan_sc21 --json",
    ),
    more="The exit code is 1 when a table is out of tolerance.",
    render=render,
    ok=lambda answer: answer.ok,
    lists=False,
)
