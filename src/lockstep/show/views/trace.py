"""`lockstep trace`: a collective or pipeline as a file for Perfetto."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from lockstep.base.units import format_frac, format_time
from lockstep.show.views.parts.captured import plot_lanes
from lockstep.show.views.parts.command import Command
from lockstep.show.views.parts.terminal import heading, indented, table
from lockstep.show.views.parts.timelines import plot_timeline
from lockstep.simulate.program.timeline import LAUNCHES

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

    from lockstep.show.verbs.trace import Trace


def render(found: Trace, out: Console) -> None:
    """Prints the summary."""
    line, ranks = found.timeline, found.timeline.program.ranks
    out.print(Text(f"{found.path}: {found.what}, {format_time(line.makespan_s)}", style="bold"))
    number = f"{ranks} rank{'s' if ranks > 1 else ''}"
    out.print(
        f"{number}, {len(line.program)} operations, {format_frac(line.utilization_frac)} computing; "
        "open it with ui.perfetto.dev"
    )
    heading(out, "Critical path")
    rows = [(kind, format_time(time_s)) for kind, time_s in line.critical_s_by_kind().items() if time_s]
    indented(out, table([("", "left"), ("time", "right")], rows))


def plot_trace(found: Trace) -> Figure:
    """The timeline that was written."""
    line = found.timeline
    if LAUNCHES in line.program.streams:
        return plot_lanes(line, f"{found.what}: {format_time(line.makespan_s)}")
    computing = format_frac(line.utilization_frac)
    return plot_timeline(line, title=f"{found.what}: {format_time(line.makespan_s)}, {computing} of it computing")


COMMAND = Command(
    examples=(
        "lockstep trace pipeline --stages 4 --microbatches 8 --schedule zb-h1 -o zb.json.gz",
        "lockstep trace all-reduce --ranks 8 --size 100MB --algorithm ring --latency 5us --bandwidth "
        "25GB/s -o ring.json.gz",
        "lockstep trace pipeline --stages 4 --microbatches 8 --as kineto -o ranks",
        "lockstep trace step.capture -c dgx-h100:8 -o step.json.gz",
    ),
    render=render,
    picture=plot_trace,
    lists=False,
)
