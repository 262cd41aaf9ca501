"""What tables said at first sight, as `lockstep validate --first-sight` shows it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rich.text import Text

from lockstep.base.units import format_frac
from lockstep.show.views.parts.figure import PALETTE, make_figure
from lockstep.show.views.parts.terminal import heading, indented, paragraph, table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import Console

    from lockstep.check.validation import Errors, Ledger, Sight

_NUMBERS = [("rows", "right"), ("median", "right"), ("mean", "right"), ("inside", "right"), ("fit", "right")]
_ENTRIES = [("table", "left"), ("asked", "left"), ("commit", "left"), *_NUMBERS, ("choice", "right")]
_GROUPS = [("table", "left"), ("rows of", "left"), *_NUMBERS]
NOTES = (
    "median, mean: of predicted / measured - 1; negative is too fast",
    "inside: steps inside the 90 % interval; fit: layouts that fit in memory",
    "choice: time of the layout predicted fastest over the fastest, minus 1",
)


def first_sight_words(found: Ledger) -> str:
    """The error to expect of what Lockstep was not made beside, in a sentence without its full stop."""
    median, inside = format_frac(found.median_abs_frac, 2), format_frac(found.coverage_frac, 2)
    tables = "1 table" if len(found.quoted) == 1 else f"{len(found.quoted)} tables"
    return f"First sight of {tables}: median error {median}, {inside} inside the 90 % interval"


def render_ledger(found: Ledger, out: Console) -> None:
    """Prints the entries, and the groups of the first ones."""
    out.print(Text(first_sight_words(found), style="bold"))
    heading(out, "Entries", "asked before anything was changed for the table; never changed")
    indented(out, table(_ENTRIES, (_entry(one) for one in found.entries)))
    for line in NOTES:
        out.print(Text(f"  {line}", style="dim"))
    heading(out, "Parts", "of the first entry of each table")
    parts = ([one.table, part.name, *_numbers(part)] for one in found.first for part in one.groups)
    indented(out, table(_GROUPS, parts))
    if len(found.first) == 1:
        (one,) = found.first
        out.print()
        paragraph(out, f"{one.title}. Source: {one.source}.")
        paragraph(out, f"Asked as: {one.question}", "dim")


def _entry(one: Sight) -> list[str]:
    choice = "" if one.choice_frac is None else format_frac(one.choice_frac, 2)
    return [one.table, one.date, one.commit, *_numbers(one), choice]


def _numbers(one: Errors) -> list[str]:
    signed = ("+" if one.mean_signed_frac > 0 else "") + format_frac(one.mean_signed_frac, 2)
    shares = (format_frac(share, 2) for share in (one.coverage_frac, one.fits_frac))
    return [str(one.rows), format_frac(one.median_abs_frac, 2), signed, *shares]


def plot_ledger(found: Ledger) -> Figure:
    """Signed median errors of the parts of each table, a colour a table."""
    parts = sum(len(one.groups) for one in found.first)
    return make_figure(first_sight_words(found), partial(_plot_parts, found), size=(9.0, 1.6 + 0.3 * parts))


def _plot_parts(found: Ledger, axes: Axes) -> None:
    names: list[str] = []
    for place, one in enumerate(found.first):
        places = range(len(names), len(names) + len(one.groups))
        sizes = [100 * part.median_signed_frac for part in one.groups]
        axes.barh(places, sizes, color=PALETTE[place % len(PALETTE)], label=one.table)
        names += [f"{part.name} ({part.rows})" for part in one.groups]
    axes.axvline(0.0, color="#333333", linewidth=1)
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel("median of predicted / measured - 1, %; negative is too fast")
    axes.legend(fontsize=8, frameon=False)
