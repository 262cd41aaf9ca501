"""Bucketed overlap as a picture: step time over the bucket size, with what no bucket can reach and no overlap."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.verbs.overlap import Overlap
from lockstep.report.figure import sizes_on, times_on, write_figure
from lockstep.report.timeline_plot import PALETTE

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_buckets(found: Overlap, path: Path) -> None:
    """Writes the curve."""
    rows = found.sweep.rows
    best = found.sweep.best

    def draw(axes: Axes) -> None:
        sizes_B = [row.bucket_B for row in rows]
        step = best.step
        axes.plot(sizes_B, [float(row.step.step_s) for row in rows], ".-", color=PALETTE[0], label="step")
        axes.plot([best.bucket_B], [float(step.step_s)], "o", color=PALETTE[4], label="best")
        axes.axhline(found.sweep.no_overlap_s, color="#999999", linestyle="--", label="no overlap")
        both_s = max(float(step.compute_s), float(step.comm_s))
        axes.axhline(both_s, color="#999999", linestyle=":", label="max(compute, communication): a bound")
        axes.set(xscale="log", xlabel="bucket", ylabel="step")
        sizes_on(axes.xaxis)
        times_on(axes.yaxis)
        axes.legend(fontsize=8, frameon=False)

    write_figure(path, f"{len(found.layers.backward_s)} layers on {found.ranks} ranks", draw)
