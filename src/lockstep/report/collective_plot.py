"""A collective as a picture: time of every algorithm over the size, both axes logarithmic, the fastest marked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lockstep.verbs.collective import Collective
from lockstep.collectives import Comparison, get, lower_bound_on_levels_s, lower_bound_s, times_on_levels
from lockstep.report.figure import sizes_on, times_on, write_figure
from lockstep.report.timeline_plot import PALETTE
from lockstep.units import format_size, format_time

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STYLES = ("-", "--", ":")


def plot_sizes(found: Collective, path: Path) -> None:
    """Sizes from 1 KiB to 4 GiB; dots mark the size asked for, a circle the fastest algorithm there."""
    known = found.comparison
    sizes_B = np.geomspace(2.0**10, 2.0**32, 133)

    def draw(axes: Axes) -> None:
        for i, row in enumerate(known.rows):
            time_s = _times_s(found, row.algorithm, sizes_B)
            colour, style = PALETTE[i % len(PALETTE)], STYLES[i // len(PALETTE) % len(STYLES)]
            label = row.algorithm + (f" ({row.ports} ports)" if row.ports > 1 else "")
            axes.plot(sizes_B, np.broadcast_to(time_s, sizes_B.shape), style, color=colour, label=label)
            axes.plot([known.size_B], [row.time_s], "o", color=colour, markersize=4)
        _mark_best(axes, known)
        bound_s = np.broadcast_to(_bound_s(found, sizes_B), sizes_B.shape)
        ports = "one port per level" if found.network.spans_levels else "one port"
        axes.fill_between(sizes_B, bound_s, np.min(bound_s) / 3, color="#DDDDDD", label=f"below the bound of {ports}")
        axes.set(xscale="log", yscale="log", xlabel="size", ylabel="time")
        sizes_on(axes.xaxis)
        times_on(axes.yaxis)
        axes.legend(fontsize=8, ncols=2, frameon=False)

    write_figure(path, f"{known.op} on {known.ranks} ranks", draw)


def _mark_best(axes: Axes, known: Comparison) -> None:
    best = next(row for row in known.rows if row.algorithm == known.best)
    label = f"{best.algorithm} at {format_size(known.size_B)}: {format_time(best.time_s)}"
    axes.plot([known.size_B], [best.time_s], "o", color="black", markersize=9, fillstyle="none", label=label)


def _times_s(found: Collective, name: str, sizes_B: Any) -> Any:
    """Seconds of one algorithm at many sizes, on the network of the answer."""
    op, network = found.comparison.op, found.network
    if network.spans_levels:
        return times_on_levels(op, network.levels, sizes_B, [name])[name]
    return get(op, name).price(network.ranks, sizes_B, network.link).time_s


def _bound_s(found: Collective, sizes_B: Any) -> Any:
    op, network = found.comparison.op, found.network
    if network.spans_levels:
        return lower_bound_on_levels_s(op, network.levels, sizes_B)
    return lower_bound_s(op, network.ranks, sizes_B, network.link)
