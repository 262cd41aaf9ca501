"""Predicted beside measured: bars for one size, lines with dots over several."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lockstep.measure.rig import Race
from lockstep.report.figure import write_figure
from lockstep.report.timeline_plot import PALETTE
from lockstep.units import format_size, format_time

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BAR = 0.38


def plot_race(found: Race, path: Path) -> None:
    """Writes the picture."""
    sizes = {lap.size_B for lap in found.laps}
    longest_s = max(found.topology.delay_s(0, host) for host in range(1, found.ranks))
    title = f"{found.op}, {found.ranks} ranks, {found.topology.name}, {format_time(longest_s)} one way"
    if len(sizes) == 1:
        write_figure(path, f"{title}, {format_size(sizes.pop())}", lambda axes: _bars(found, axes))
    else:
        write_figure(path, title, lambda axes: _lines(found, axes))


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
