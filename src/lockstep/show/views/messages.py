"""`lockstep messages`: messages and elements of one synchronisation, counted from the programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from lockstep.base.units import format_count
from lockstep.show.views.parts import bars
from lockstep.show.views.parts.command import Command
from lockstep.show.views.parts.figure import make_figure
from lockstep.show.views.parts.terminal import heading, indented, table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import Console

    from lockstep.simulate.collectives import Messages


_TITLES = [("program", "left"), ("messages", "right"), ("of", "right"), ("total", "right"), ("law", "text")]


def render(found: Messages, out: Console) -> None:
    """Prints the rows."""
    out.print(Text(_title(found), style="bold"))
    heading(out, "Messages", f"to sum {format_count(found.params)} parameters over {found.workers} workers")
    rows = [
        [row.program, f"{row.messages:,}", format_count(row.message_elems), format_count(row.total_elems), row.formula]
        for row in found.rows
    ]
    indented(out, table(_TITLES, rows))


def _title(found: Messages) -> str:
    fewest = min(found.rows, key=lambda row: row.total_elems)
    return f"{fewest.program} moves the fewest elements: {format_count(fewest.total_elems)}"


WIDE = 12
"""Numbers whose largest is this many times the smallest are drawn on a logarithmic axis."""


def plot_messages(found: Messages) -> Figure:
    """Messages and elements by program."""
    rows = sorted(found.rows, key=lambda row: row.total_elems)
    names = [row.program for row in rows]

    def of(values: Sequence[float], title: str, colour: str) -> Callable[[Axes], None]:
        def draw(axes: Axes) -> None:
            wide = max(values) > WIDE * min(values) > 0
            bars.plain(axes, names, values, format_count, colours=colour, log=wide)
            axes.set_xlabel(title)

        return draw

    summed = f"to sum {format_count(found.params)} parameters over {found.workers} workers"
    draws = (
        of([row.total_elems for row in rows], f"elements sent by all workers {summed}", bars.BLUE),
        of([row.messages for row in rows], "messages", bars.ORANGE),
    )
    return make_figure(_title(found), *draws, size=(12.0, 1.4 + 0.32 * max(4, len(rows))))


COMMAND = Command(
    examples=("lockstep messages --workers 8 --params 25M --program all",),
    render=render,
    picture=plot_messages,
    series=("program", "messages"),
)
