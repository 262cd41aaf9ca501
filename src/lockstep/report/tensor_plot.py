"""A layer by number of ranks as a picture: where its time goes, and the speed-up beside the ideal one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.parallel.tensor import TensorLayer
from lockstep.report.figure import times_on, write_figure
from lockstep.report.timeline_plot import PALETTE

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_tensor(found: TensorLayer, path: Path) -> None:
    """Writes both panels."""
    rows = found.rows
    names = [f"{row.ranks:,}" for row in rows]
    places = list(range(len(rows)))

    def times(axes: Axes) -> None:
        traffic_s = [row.traffic_s for row in rows]
        compute_s = [row.compute_s for row in rows]
        axes.bar(places, compute_s, 0.6, color=PALETTE[0], label="computing")
        exposed_s = [row.exposed_s for row in rows]
        axes.bar(places, exposed_s, 0.6, bottom=compute_s, color=PALETTE[1], label="exposed traffic")
        axes.plot(places, traffic_s, "o--", color="black", markerfacecolor="white", label="all traffic, hidden or not")
        axes.set(xlabel="ranks", ylabel="layer, both passes")
        axes.set_xticks(places, names)
        axes.set_ylim(0, 1.08 * max(*traffic_s, *(row.time_s for row in rows)))
        times_on(axes.yaxis)
        axes.legend(fontsize=8, frameon=False)

    def speed(axes: Axes) -> None:
        axes.plot(places, [row.ranks for row in rows], ":", color="#999999", label="ideal")
        axes.plot(places, [row.speedup for row in rows], ".-", color=PALETTE[0], label="speed-up over one rank")
        asked = next(i for i, row in enumerate(rows) if row.ranks == found.ranks)
        axes.plot([asked], [found.row.speedup], "o", color=PALETTE[4], label=f"{found.ranks:,} ranks, as asked")
        axes.set_yscale("log", base=2)
        axes.set(xlabel="ranks", ylabel="speed-up")
        axes.set_xticks(places, names)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.legend(fontsize=8, frameon=False)

    shape = found.shape
    title = f"A layer {shape.hidden:,} wide, {shape.tokens:,} tokens, overlap {found.overlap}"
    write_figure(path, title, times, speed, size=(10.0, 4.5))
