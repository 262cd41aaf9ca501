"""`lockstep messages`: messages and elements of one synchronisation, counted from the programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from lockstep.units import format_count
from lockstep.views.parts.command import Command
from lockstep.views.parts.terminal import heading, indented, table

if TYPE_CHECKING:
    from rich.console import Console

    from lockstep.collectives import Messages


_TITLES = [("program", "left"), ("messages", "right"), ("of", "right"), ("total", "right"), ("law", "text")]


def render(found: Messages, out: Console) -> None:
    """Prints the rows."""
    fewest = min(found.rows, key=lambda row: row.total_elems)
    title = f"{fewest.program} moves the fewest elements: {format_count(fewest.total_elems)}"
    out.print(Text(title, style="bold"))
    heading(out, "Messages", f"to sum {format_count(found.params)} parameters over {found.workers} workers")
    rows = [
        [row.program, f"{row.messages:,}", format_count(row.message_elems), format_count(row.total_elems), row.formula]
        for row in found.rows
    ]
    indented(out, table(_TITLES, rows))


COMMAND = Command(
    examples=("lockstep messages --workers 8 --params 25M --program all",),
    render=render,
    series=("program", "messages"),
)
