"""A collective for a person: the fastest algorithm, then all of them by time."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from lockstep.verbs.collective import Collective
from lockstep.collectives import Row
from lockstep.report.terminal import heading, indented, small_print, table
from lockstep.units import format_bandwidth, format_size, format_time

_TITLES = [("algorithm", "left"), ("time", "right"), ("sent", "right"), ("bus", "right")]
_COUNTS = [("steps", "right"), ("messages", "right")]


def render(found: Collective, out: Console) -> None:
    """Prints the comparison."""
    known = found.comparison
    ranked = sorted(known.rows, key=lambda row: row.time_s)
    best = next(row for row in ranked if row.algorithm == known.best)
    levels = found.network.spans_levels
    over = " over the cluster's levels" if levels else ""
    out.print(Text(f"{best.algorithm}{over}: {format_time(best.time_s)}", style="bold"))
    bound = format_time(best.lower_bound_s)
    ports = "port per level" if levels else "port" if best.ports == 1 else "ports"
    ports = f"{best.ports if best.ports > 1 else 'one'} {ports}"
    out.print(f"{known.op} of {format_size(known.size_B)} on {known.ranks} ranks; lower bound with {ports}: {bound}.")
    note = "; (2) needs two ports" if any(row.ports > 1 for row in ranked) else ""
    heading(out, "Algorithms", f"fastest first; bytes sent per rank{note}")
    simulated = any(row.simulated_s is not None for row in ranked)
    crossing = any(row.cross_node_B is not None for row in ranked)
    titles = [
        *_TITLES,
        *([("node to node", "right")] if crossing else _COUNTS),
        *([("simulated", "right")] * simulated),
    ]
    indented(out, table(titles, (_row(row, simulated, crossing) for row in ranked)))
    small_print(out, "Assumptions", found.assumptions, len(found.assumptions))


def _row(row: Row, simulated: bool, crossing: bool) -> list[str]:
    cells = [
        row.algorithm + ("" if row.ports == 1 else f" ({row.ports})"),
        format_time(row.time_s),
        format_size(row.bytes_sent_per_rank),
        format_bandwidth(row.bus_bandwidth_Bps),
    ]
    if crossing:
        cells.append("-" if row.cross_node_B is None else format_size(row.cross_node_B))
    else:
        cells += [str(row.latency_steps), f"{row.messages:,}"]
    if simulated:
        cells.append("-" if row.simulated_s is None else format_time(row.simulated_s))
    return cells
