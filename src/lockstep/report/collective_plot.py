"""A collective as a picture: time of every algorithm over the size, both axes logarithmic."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lockstep.api import Collective
from lockstep.collectives import get, lower_bound_s
from lockstep.report.figure import sizes_on, times_on, write_figure
from lockstep.report.timeline_plot import PALETTE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STYLES = ("-", "--", ":")


def plot_sizes(found: Collective, path: Path) -> None:
    """Sizes from 1 KiB to 4 GiB; a dot marks the size asked for."""
    known, link = found.comparison, found.network.link
    sizes_B = np.geomspace(2.0**10, 2.0**32, 133)

    def draw(axes: Axes) -> None:
        for i, row in enumerate(known.rows):
            time_s = get(known.op, row.algorithm).price(known.ranks, sizes_B, link).time_s
            colour, style = PALETTE[i % len(PALETTE)], STYLES[i // len(PALETTE) % len(STYLES)]
            axes.plot(
                sizes_B,
                np.broadcast_to(time_s, sizes_B.shape),
                style,
                color=colour,
                label=row.algorithm + (f" ({row.ports} ports)" if row.ports > 1 else ""),
            )
            axes.plot([known.size_B], [row.time_s], "o", color=colour, markersize=4)
        bound_s = np.broadcast_to(lower_bound_s(known.op, known.ranks, sizes_B, link), sizes_B.shape)
        axes.fill_between(sizes_B, bound_s, np.min(bound_s) / 3, color="#DDDDDD", label="below the bound of one port")
        axes.set(xscale="log", yscale="log", xlabel="size", ylabel="time")
        sizes_on(axes.xaxis)
        times_on(axes.yaxis)
        axes.legend(fontsize=8, ncols=2, frameon=False)

    write_figure(path, f"{known.op} on {known.ranks} ranks", draw)
