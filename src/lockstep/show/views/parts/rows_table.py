"""Answers for several values of options for a person: a row for each combination."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text

from lockstep.base.rows.choice import Choice, choice
from lockstep.base.rows.columns import Series, columns, shown
from lockstep.base.units import format_frac
from lockstep.show.views.parts.terminal import heading, indented, table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

    from lockstep.base.rows import Rows

MOST_FIGURES, MOST_NAMES = 7, 6
"""Columns of figures; of one figure by name, whose titles are longer."""
MOST_ROWS = 200
LONG = 10


def render_rows(figures: Sequence[str], series: Series | None, found: Rows, out: Console) -> None:
    """Prints the rows: these `figures` of each answer, or those of its `series`."""
    made = columns(found, figures, series)
    layouts = [one for one in made if one.key.endswith("layout")]
    every = [one for one in made if one not in layouts]
    answered = sum(row.found is not None for row in found.rows)
    varied = " and ".join(_flag(name) for name in found.options)
    out.print(Text(f"{answered:,} of {found.asked:,} answers of {found.verb} by {varied}.", style="bold"))
    if found.stopped:
        out.print(Text(f"Stopped after {len(found.rows):,} of {found.asked:,}: {found.stopped}.", style="bold"))
    chosen = None if series else choice(found, figures)
    if chosen is not None:
        _choice(chosen, out)
    if series:
        out.print(Text(f"{series[1].removesuffix('_s').replace('_', ' ')} by {series[0]}", style="dim"))
    options = [(_flag(name), "right") for name in found.options]
    most = MOST_NAMES if series else MOST_FIGURES
    kept, places = every[:most], range(min(MOST_ROWS, len(found.rows)))
    given = [[str(value) for value in row.given.values()] for row in found.rows[:MOST_ROWS]]
    rows = [[*given[at], *(one.text(at) for one in kept)] for at in places if found.rows[at].found is not None]
    refused = [[*given[at], found.rows[at].why] for at in places if found.rows[at].found is None]
    if rows:
        out.print()
        indented(out, table([*options, *((_title(one.label), "right") for one in kept)], rows))
    for one in layouts:
        heading(out, "Layouts")
        laid = ([*given[at], _layout(one.values[at])] for at in places if found.rows[at].found is not None)
        indented(out, table([*options, (one.label, "text")], laid))
    if refused:
        heading(out, "Without an answer")
        indented(out, table([*options, ("why", "text")], refused))
    more = [one.label for one in every[most:]]
    if len(found.rows) > MOST_ROWS or more:
        out.print(Text(_left_out(len(found.rows) - MOST_ROWS, len(more)), style="dim"))


def _layout(fields: Mapping[str, Any] | None) -> str:
    """`tp2 dp8 mb1 zero1`: a layout from its plain form."""
    from lockstep.price.layout import Layout

    if fields is None:
        return "-"
    placed = {"order": tuple(fields["order"].split("-")), "stages": tuple(fields["stages"])}
    return str(Layout(**{**fields, **placed}))


def _choice(found: Choice, out: Console) -> None:
    """For each name of the first option the best of the second, and the next."""
    heading(out, "Best choice", f"by {found.label}; the least over all other options")
    lines = []
    for place, name in enumerate(found.rows):
        ranked = found.ranked(place)
        if not ranked:
            lines.append([name, "none has an answer", "", "", ""])
            continue
        best, *others = ranked
        following = [others[0][1], f"+{format_frac(others[0][0] / best[0] - 1)}"] if others else ["", ""]
        lines.append([name, best[1], shown(found.key, best[0]), *following])
    titles = [("", "left"), ("best", "left"), (found.label, "right"), ("next", "left"), ("more", "right")]
    indented(out, table(titles, lines))


def _left_out(rows: int, figures: int) -> str:
    said = [f"{number:,} more {what}" for number, what in ((rows, "rows"), (figures, "columns")) if number > 0]
    return f"\n{' and '.join(said)} with --json or --csv"


def _title(label: str) -> str:
    """On several lines where it is long."""
    return label if len(label) < LONG else label.replace("-", "-\n", 1).replace(" ", "\n", 1)


def _flag(name: str) -> str:
    if name == "model":
        return "MODEL"
    return f"--{name.replace('_', '-')}"
