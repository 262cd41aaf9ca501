"""A rig for a person: how well the prediction did, then every algorithm predicted and measured."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from lockstep.measure.rig import Crossing, Lap, Race
from lockstep.report.terminal import heading, indented, small_print, table
from lockstep.units import format_bandwidth, format_frac, format_size, format_time

MOST_ROWS, MOST_CROSSINGS = 24, 4
FAR_FRAC = 0.10
"""Errors beyond it are shown in red: the bar of the laboratory for trees and servers."""


def render(found: Race, out: Console) -> None:
    """Prints the race."""
    worst = found.worst
    said = f"Predicted within {format_frac(found.median_error_frac, 2)} (median), {_signed(worst.error_frac)} at worst"
    out.print(Text(said, style="bold"))
    out.print(_setting(found))
    out.print(_calibration(found))
    if not found.ok:
        out.print(Text("some results are wrong; see --json", style="bold red"))
    note = "predicted before it was measured"
    sizes = len({lap.size_B for lap in found.laps})
    shown = sorted(found.laps, key=lambda lap: (lap.size_B, lap.measured_s))[:MOST_ROWS]
    hidden = len(found.laps) - len(shown)
    heading(out, "Algorithms", note + (f"; {hidden} more with --json" if hidden else ""))
    titles = [
        *([("size", "right")] * (sizes > 1)),
        ("algorithm", "left"),
        ("predicted", "right"),
        ("measured", "right"),
    ]
    titles += [("error", "right"), ("fastest", "right"), ("slowest", "right")]
    indented(out, table(titles, (_row(lap, sizes > 1) for lap in shown)))
    if found.crossings:
        heading(out, "Crossovers", "size at which two algorithms tie")
        titles = [("between", "left"), ("predicted", "right"), ("measured", "right")]
        indented(out, table(titles, (_crossing(one) for one in found.crossings[:MOST_CROSSINGS])))
    small_print(out, "Assumptions", found.assumptions, len(found.assumptions))


def _setting(found: Race) -> str:
    """The links, in a line."""
    slowest_Bps = min(link.rate_Bps for link in found.topology.links)
    longest_s = max(found.topology.delay_s(0, host) for host in range(1, found.ranks))
    named = f"{found.op}, {found.ranks} ranks, {found.topology.name}"
    return f"{named}: {format_bandwidth(slowest_Bps)} a link, {format_time(longest_s)} one way."


def _calibration(found: Race) -> str:
    """What sends and receives gave, in a line."""
    known = found.calibration
    return (
        f"Sends and receives give {format_time(known.latency_s)} and {format_bandwidth(known.bandwidth_Bps)}, "
        f"described to {format_frac(known.worst_frac, 2)}."
    )


def _row(lap: Lap, with_size: bool) -> list[str | Text]:
    cells: list[str | Text] = [format_size(lap.size_B)] if with_size else []
    error = Text(_signed(lap.error_frac), style="red" if abs(lap.error_frac) > FAR_FRAC else "")
    cells += [lap.algorithm, format_time(lap.predicted_s), format_time(lap.measured_s), error]
    return [*cells, format_time(lap.fastest_s), format_time(lap.slowest_s)]


def _crossing(one: Crossing) -> list[str]:
    sizes = (one.predicted_B, one.measured_B)
    return [f"{one.first}, {one.second}", *("-" if size_B is None else format_size(size_B) for size_B in sizes)]


def _signed(frac: float) -> str:
    return f"{100 * frac:+.1f} %"
