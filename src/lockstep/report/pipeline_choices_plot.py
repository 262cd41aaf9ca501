"""Utilisation against memory of pipeline schedules: a point per way, the front as a line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.verbs.pipeline import PipelineChoices
from lockstep.report.figure import write_figure
from lockstep.report.timeline_plot import PALETTE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKERS = "o^sD"
"""One for each time that the colours begin anew."""


def plot_choices(found: PipelineChoices, path: Path) -> None:
    """Writes the picture."""
    names = list(dict.fromkeys(point.schedule for point in found.points))

    def draw(axes: Axes) -> None:
        memory, best = [point.live_models for point in found.front], [point.utilization_frac for point in found.front]
        axes.step(memory, best, where="post", color="0.7", zorder=1)
        for index, name in enumerate(names):
            own = [point for point in found.points if point.schedule == name]
            held, busy = [point.live_models for point in own], [point.utilization_frac for point in own]
            round_of, colour = divmod(index, len(PALETTE))
            axes.scatter(held, busy, s=24, color=PALETTE[colour], marker=MARKERS[round_of], label=name, zorder=2)
        axes.set(xlabel="activations held at most, micro-batches through the whole model", ylabel="share of time busy")
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:g}")
        axes.set_ylim(0, 1.02)
        axes.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))

    write_figure(path, "Pipeline schedules: utilisation against memory", draw)
