"""`lockstep validate`: published measurements against predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from rich.text import Text

from lockstep.base.units import format_frac
from lockstep.show.views.parts.command import Command
from lockstep.show.views.parts.figure import PALETTE, make_figure
from lockstep.show.views.parts.first_sight import first_sight_words, plot_ledger, render_ledger
from lockstep.show.views.parts.terminal import heading, indented, table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import Console

    from lockstep.check.validation import Ledger, Report, StackReport, TableReport
    from lockstep.check.validation.regret import Regret


WORST_OF_ALL = 8
WORST_OF_EACH = 3
_TITLES = [("table", "left"), ("rows", "right"), ("mean", "right"), ("median", "right"), ("max", "right")]
_TITLES += [("left out", "right"), ("inside", "right"), ("const", "right"), ("limit", "right"), ("", "left")]
_BY_STACK = [("software", "left"), ("rows", "right"), ("median", "right"), ("left out", "right"), ("90 %", "right")]
_BY_STACK += [("mean", "right"), ("inside", "right")]


def render(report: Report, out: Console) -> None:
    """Prints the report."""
    from lockstep.check.validation import first_sight

    tables = report.tables
    good = sum(one.ok for one in tables)
    style = "bold green" if report.ok else "bold red"
    out.print(Text(f"{good} of {len(tables)} tables within tolerance", style=style))
    if len(report.stacks) > 1 and report.left_out_median_frac is not None:
        said = format_frac(report.left_out_median_frac, 2)
        inside = _share(report.coverage_frac)
        out.print(f"{first_sight_words(first_sight())}; what follows is in sample.")
        what = f"in sample, nothing of it fitted to: median error {said}, {inside} inside the 90 % interval"
        heading(out, "Steps by software", what)
        indented(out, table(_BY_STACK, (_by_stack(one) for one in report.stacks)))
        out.print(Text("  left out, 90 %, mean, inside: of a fit without any row of that software", style="dim"))
    chosen = [(one.table.name, one.regret) for one in tables if one.regret is not None]
    if chosen:
        heading(out, "Choices", "measured time of the layout chosen by prediction over the least measured, minus 1")
        titles = [("table", "left"), ("questions", "right"), ("fastest: mean", "right"), ("max", "right")]
        titles += [("robust: mean", "right"), ("max", "right")]
        indented(out, table(titles, ([name, str(one.questions), *_regrets(one)] for name, one in chosen)))
    if report.fits_frac is not None:
        out.print(f"\n{format_frac(report.fits_frac)} of the layouts that ran, of those asked, fit in memory here.")
    if (found := report.ran_out).runs:
        out.print(
            f"Of {found.runs} runs that ran out of memory {found.accepted} would fit here, {found.tight} more barely."
        )
    heading(out, "Errors", "predicted / measured - 1; positive is too slow or too much memory")
    indented(out, table(_TITLES, (_numbers(one) for one in tables)))
    out.print(Text("  left out: median error of a fit without any row of the same software", style="dim"))
    out.print(Text("  inside: share of steps inside the 90 % interval of that fit", style="dim"))
    out.print(Text("  const: median error of the best single efficiency, MFU or HFU, of each table", style="dim"))
    for one in tables:
        if one.table.computed:
            said = "computed by another simulator, not measured; counted in no other number here"
            out.print(Text(f"  {one.table.name}: {said}", style="dim"))
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
        _share(one.left_out_median_frac),
        _share(one.coverage_frac),
        format_frac(min(constants), 2) if constants else "",
        format_frac(one.table.tolerance_frac, 2),
        Text("ok", style="green") if one.ok else Text("no", style="red"),
    ]


def _by_stack(one: StackReport) -> list[str]:
    """Rows, median error, then median, 90th percentile and mean of what the fit had no part in."""
    sizes = np.abs(one.left_out_fracs)
    return [
        one.stack,
        str(len(one.fracs)),
        format_frac(float(np.median(np.abs(one.fracs))), 2),
        format_frac(float(np.median(sizes)), 2),
        format_frac(float(np.quantile(sizes, 0.9)), 2),
        _signed(float(np.mean(one.left_out_fracs))),
        _share(one.coverage_frac),
    ]


def _regrets(one: Regret) -> list[str]:
    fracs = one.mean_frac, one.max_frac, one.robust_mean_frac, one.robust_max_frac
    return [format_frac(frac, 2) for frac in fracs]


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


WITHIN_FRAC = 0.10


def plot_validate(report: Report) -> Figure:
    """Predictions against measurements, and their errors by software, or by table where no steps were asked for.

    Step times are those of a fit that knows no row of the software.
    """
    groups = _groups(report)
    title = f"{sum(map(len, groups.values())):,} published rows; grey: within {format_frac(WITHIN_FRAC)}"
    height = 1.6 + 0.26 * max(8, len(groups))
    return make_figure(title, partial(_plot_rows, groups), partial(_plot_errors, groups), size=(13.0, height))


def _groups(report: Report) -> dict[str, list[tuple[float, float]]]:
    """(measured, predicted) by software, those that err least first; by table where nothing is a step time."""
    timed, found = bool(report.stacks), dict[str, list[tuple[float, float]]]()
    for one in report.tables:
        for error in one.errors:
            if error.left_out is not None:
                found.setdefault(error.stack, []).append((error.measured, error.left_out))
            elif not timed:
                found.setdefault(one.table.name, []).append((error.measured, error.predicted))
    return dict(sorted(found.items(), key=lambda item: float(np.median([abs(b / a - 1) for a, b in item[1]]))))


def _plot_rows(groups: Mapping[str, Sequence[tuple[float, float]]], axes: Axes) -> None:
    """Predicted over measured, both logarithmic."""
    for place, (name, pairs) in enumerate(groups.items()):
        measured, predicted = zip(*pairs, strict=True)
        marker = MARKERS[place // len(PALETTE) % len(MARKERS)]
        axes.plot(measured, predicted, marker, color=PALETTE[place % len(PALETTE)], markersize=4, alpha=0.6, label=name)
    ends = np.array([value for pairs in groups.values() for pair in pairs for value in pair])
    line = np.array([ends.min(), ends.max()])
    axes.fill_between(line, line * (1 - WITHIN_FRAC), line * (1 + WITHIN_FRAC), color="#eeeeee", zorder=0)
    axes.plot(line, line, color="#333333", linewidth=1, zorder=1)
    unit = "s or B" if ends.max() > MOST_S else "s"
    axes.set(xscale="log", yscale="log", xlabel=f"measured, {unit}", ylabel=f"predicted, {unit}")
    axes.legend(fontsize=8, frameon=False, ncols=2, loc="upper left")


def _plot_errors(groups: Mapping[str, Sequence[tuple[float, float]]], axes: Axes) -> None:
    """A line of dots for each group, and its median."""
    for place, (name, pairs) in enumerate(groups.items()):
        ratios = [predicted / measured for measured, predicted in pairs]
        colour = PALETTE[list(groups).index(name) % len(PALETTE)]
        axes.plot(ratios, [place] * len(ratios), "o", color=colour, markersize=4, alpha=0.4)
        axes.plot([float(np.median(ratios))], [place], "|", color="#333333", markersize=9)
    axes.axvspan(1 - WITHIN_FRAC, 1 + WITHIN_FRAC, color="#eeeeee", zorder=0)
    axes.axvline(1.0, color="#333333", linewidth=1)
    axes.set_yticks(range(len(groups)), [f"{name} ({len(pairs)})" for name, pairs in groups.items()], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel("predicted / measured; bar: median")


MARKERS = ("o", "^", "s", "D")
MOST_S = 1e6
"""Larger numbers are bytes."""


def _render(found: Report | Ledger, out: Console) -> None:
    """Prints the report, or the ledger of first sights."""
    from lockstep.check.validation import Ledger

    if isinstance(found, Ledger):
        render_ledger(found, out)
    else:
        render(found, out)


def _plot(found: Report | Ledger) -> Figure:
    """The picture of either."""
    from lockstep.check.validation import Ledger

    return plot_ledger(found) if isinstance(found, Ledger) else plot_validate(found)


COMMAND = Command(
    examples=(
        "lockstep validate",
        "lockstep validate narayanan_sc21 --plot errors.png",
        "lockstep validate narayanan_sc21 --json",
        "lockstep validate --first-sight",
        "lockstep validate lucie_7b_jeanzay --first-sight",
    ),
    more="The exit code is 1 when a table is out of tolerance.",
    render=_render,
    picture=_plot,
    doing="predicting published rows",
    ok=lambda answer: getattr(answer, "ok", True),
    lists=False,
)
