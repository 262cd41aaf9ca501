"""Measured times over size, the fitted lines through them, and the outliers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lockstep.verbs.fit import Fit
from lockstep.report.figure import write_figure
from lockstep.report.timeline_plot import PALETTE
from lockstep.units import format_bandwidth, format_time

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_fit(answer: Fit, path: Path) -> None:
    """Writes the picture; the ending of `path` chooses the format."""
    found = answer.found
    points = found.points.points
    out = set(found.outliers)
    fitted_s = np.array([point.time_s for point in points]) * (1 + found.errors_frac)

    def draw(axes: Axes) -> None:
        names = list(dict.fromkeys((point.op, point.algorithm) for point in points))
        for place, name in enumerate(names):
            here = [i for i, point in enumerate(points) if (point.op, point.algorithm) == name]
            here.sort(key=lambda i: points[i].size_B)
            colour = PALETTE[place % len(PALETTE)]
            kept = [i for i in here if i not in out]
            label = " ".join(part for part in name if part)
            axes.plot(
                [points[i].size_B for i in kept], [points[i].time_s * 1e6 for i in kept], "o", color=colour, label=label
            )
            axes.plot([points[i].size_B for i in here], fitted_s[here] * 1e6, color=colour, label="fitted")
        if out:
            left = [points[i] for i in sorted(out)]
            axes.plot([p.size_B for p in left], [p.time_s * 1e6 for p in left], "x", color="#D55E00", label="outlier")
        for segment in found.segments[1:]:
            axes.axvline(segment.from_B, color="#999999", linestyle=":", linewidth=1)
        axes.set(xscale="log", yscale="log", xlabel="size, bytes", ylabel="time, microseconds")
        axes.legend(fontsize=8, frameon=False)

    title = f"latency {format_time(found.latency_s)}, bandwidth {format_bandwidth(found.bandwidth_Bps)}"
    write_figure(path, title, draw)
