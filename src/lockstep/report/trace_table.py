"""A written trace for a person: where it is, what is in it, where to open it."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from lockstep.verbs.trace import Trace
from lockstep.report.terminal import heading, indented, table
from lockstep.units import format_frac, format_time


def render(found: Trace, out: Console) -> None:
    """Prints the summary."""
    line = found.timeline
    out.print(Text(f"{found.path}: {found.what}, {format_time(line.makespan_s)}", style="bold"))
    out.print(
        f"{line.program.ranks} ranks, {len(line.program)} operations, {format_frac(line.utilization_frac)} computing; "
        "open it with ui.perfetto.dev"
    )
    heading(out, "Critical path")
    rows = [(kind, format_time(time_s)) for kind, time_s in line.critical_s_by_kind().items() if time_s]
    indented(out, table([("", "left"), ("time", "right")], rows))
