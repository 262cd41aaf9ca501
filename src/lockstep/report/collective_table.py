"""A collective for a person: the fastest algorithm, then all of them by time."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console
from rich.text import Text

from lockstep.api import Collective
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
    ways = sorted((found.over_levels_s or {}).items(), key=lambda way: way[1])
    name, time_s = ways[0] if ways else (best.algorithm, best.time_s)
    over = " over the cluster's levels" if ways else ""
    out.print(Text(f"{name}{over}: {format_time(time_s)}", style="bold"))
    bound = format_time(best.lower_bound_s)
    ports = "port per level" if ways else "port" if best.ports == 1 else "ports"
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
    if ways:
        heading(out, "Over the cluster's levels", "every adapter at work")
        again = found.over_levels_simulated_s or {}
        again_title = [("simulated", "right")] * bool(again)
        rows = [[way, format_time(time_s), *_again(way, again)] for way, time_s in ways]
        indented(out, table([("way", "left"), ("time", "right"), *again_title], rows))
    small_print(out, "Assumptions", found.assumptions, len(found.assumptions))


def _again(way: str, simulated_s: Mapping[str, float]) -> list[str]:
    """The cell of a way's simulation, where any was simulated."""
    if not simulated_s:
        return []
    return [format_time(simulated_s[way]) if way in simulated_s else "-"]


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
