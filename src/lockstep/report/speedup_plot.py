"""Speed-up as a picture: the exact curve, the laws beside it, and the best number of workers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lockstep.campaigns import SpeedUp, amdahl, gustafson
from lockstep.report.figure import write_figure
from lockstep.report.speedup_table import FASTEST
from lockstep.report.timeline_plot import PALETTE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POINTS = 200


def plot_speedup(found: SpeedUp, path: Path) -> None:
    """Writes the curves."""
    tried = found.tried
    workers = np.unique(tried[np.searchsorted(tried, np.geomspace(1, tried[-1], POINTS).round())])

    def draw(axes: Axes) -> None:
        axes.plot(workers, workers, color="#cccccc", linestyle=":", label="ideal")
        if found.serial_frac:
            axes.plot(workers, gustafson(workers, found.serial_frac), color=PALETTE[2], label="Gustafson")
            axes.plot(workers, amdahl(workers, found.serial_frac), color=PALETTE[1], label="Amdahl")
        axes.plot(workers, found.speedup(workers), color=PALETTE[0], label=f"exact, {found.exchange or FASTEST}")
        best = found.best_workers
        axes.plot([best], [float(found.speedup(best))], "o", color=PALETTE[4], label=f"best: {best:,} workers")
        axes.set(xscale="log", yscale="log", xlabel="workers", ylabel="speed-up")
        axes.legend(fontsize=8, frameon=False)

    write_figure(path, "Speed-up of a data-parallel step", draw)
