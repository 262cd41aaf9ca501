"""`lockstep rig`: real traffic through shaped links, predicted before it is measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from rich.text import Text

from lockstep.base.units import format_bandwidth, format_frac, format_size, format_time
from lockstep.show.views.parts.command import Command
from lockstep.show.views.parts.figure import PALETTE, make_figure
from lockstep.show.views.parts.terminal import heading, indented, small_print, table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import Console

    from lockstep.run.rig import Crossing, Lap, Race


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


BAR = 0.38


def plot_race(found: Race) -> Figure:
    """The picture."""
    sizes = {lap.size_B for lap in found.laps}
    longest_s = max(found.topology.delay_s(0, host) for host in range(1, found.ranks))
    title = f"{found.op}, {found.ranks} ranks, {found.topology.name}, {format_time(longest_s)} one way"
    if len(sizes) == 1:
        return make_figure(f"{title}, {format_size(sizes.pop())}", lambda axes: _bars(found, axes))
    else:
        return make_figure(title, lambda axes: _lines(found, axes))


def _bars(found: Race, axes: Axes) -> None:
    """One pair of bars per algorithm; whiskers from the fastest to the slowest run."""
    laps = sorted(found.laps, key=lambda lap: lap.measured_s, reverse=True)
    place = np.arange(len(laps))
    measured_ms = np.array([1e3 * lap.measured_s for lap in laps])
    spread_ms = np.array(
        [[1e3 * (lap.measured_s - lap.fastest_s), 1e3 * (lap.slowest_s - lap.measured_s)] for lap in laps]
    )
    predicted_ms = [1e3 * lap.predicted_s for lap in laps]
    axes.barh(place + BAR / 2, predicted_ms, BAR, color="#BBBBBB", label="predicted")
    axes.barh(place - BAR / 2, measured_ms, BAR, xerr=spread_ms.T, color=PALETTE[0], label="measured (median, range)")
    for row, lap in enumerate(laps):
        beyond_ms = 1e3 * max(lap.predicted_s, lap.slowest_s)
        axes.annotate(
            f"{100 * lap.error_frac:+.1f} %",
            (beyond_ms, row),
            (6, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
        )
    axes.set_yticks(place, [lap.algorithm for lap in laps])
    axes.set(xlabel="milliseconds; the number is the error of the prediction")
    axes.margins(x=0.12)
    axes.legend(fontsize=8, frameon=False, loc="upper right")


def _lines(found: Race, axes: Axes) -> None:
    """A line of predictions and dots of measurements per algorithm."""
    from matplotlib.ticker import LogLocator, NullLocator

    for i, name in enumerate(dict.fromkeys(lap.algorithm for lap in found.laps)):
        laps = sorted((lap for lap in found.laps if lap.algorithm == name), key=lambda lap: lap.size_B)
        sizes_B, colour = [lap.size_B for lap in laps], PALETTE[i % len(PALETTE)]
        axes.plot(sizes_B, [1e3 * lap.predicted_s for lap in laps], "--", color=colour, linewidth=1)
        axes.plot(sizes_B, [1e3 * lap.measured_s for lap in laps], "o", color=colour, markersize=4, label=name)
    axes.plot([], [], "--", color="#555555", linewidth=1, label="predicted")
    axes.set(xscale="log", yscale="log", xlabel="size", ylabel="milliseconds (dots: measured)")
    sizes_B = sorted({lap.size_B for lap in found.laps})
    axes.set_xticks(sizes_B, [format_size(size_B) for size_B in sizes_B])
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())
    axes.legend(fontsize=8, ncols=2, frameon=False)


COMMAND = Command(
    examples=(
        "lockstep rig",
        "lockstep rig --topology flat --delay 20ms --algorithm ring,tree --size 4KiB,64KiB,1MiB --plot ties.png",
        "lockstep rig all-to-all --topology uplinks --rate 50Mbit/s --size 256KiB --runs runs",
    ),
    render=render,
    picture=plot_race,
    doing="calibrating, measuring",
    ok=lambda answer: answer.ok,
    lists=False,
)
