"""The overhead around the best interval as a picture, with the first-order formula and the simulation beside it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.failures import Checkpoint, first_order_overhead_frac
from lockstep.report.figure import write_figure
from lockstep.report.timeline_plot import PALETTE
from lockstep.units import format_time

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TICKS_S = (
    0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 60.0, 180.0, 600.0, 1800.0, 3600.0, 10_800.0, 28_800.0, 86_400.0, 259_200.0, 864e3,
    2_592e3, 8_640e3,
)  # fmt: skip
"""Round durations."""


def plot_overhead(found: Checkpoint, path: Path) -> None:
    """Writes the curve."""
    work_s = [point[0] for point in found.curve]
    percent = [100 * point[1] for point in found.curve]
    blocking_s = (1 - found.pattern.hidden_frac) * found.pattern.costs_s[-1]

    def draw(axes: Axes) -> None:
        axes.plot(work_s, percent, color=PALETTE[0], label="exact")
        if found.pattern.every == 1:
            young = 100 * first_order_overhead_frac(work_s, blocking_s, found.mtbf_s)
            axes.plot(work_s, young, color="#999999", linestyle="--", label="first order, free restart (Young)")
        axes.plot([found.interval_s], [100 * found.overhead_frac], "o", color=PALETTE[4], label="this interval")
        if found.simulated is not None:
            low, high = (100 * end for end in found.simulated.overhead.interval_s())
            middle = (low + high) / 2
            axes.errorbar(
                [found.interval_s], [middle], [[middle - low], [high - middle]], color=PALETTE[1], capsize=6,
                label="simulated, 95 %",
            )  # fmt: skip
        axes.set(xscale="log", xlabel="work between checkpoints", ylabel="overhead, % of the work")
        ticks_s = [tick_s for tick_s in TICKS_S if work_s[0] <= tick_s <= work_s[-1]]
        if ticks_s:
            axes.set_xticks(ticks_s, [format_time(tick_s) for tick_s in ticks_s])
            axes.set_xticks([], minor=True)
        axes.legend(fontsize=8, frameon=False)

    first, last = (format_time(found.pattern.costs_s[place]) for place in (0, -1))
    between = f", those between {first}" if found.pattern.every > 1 else ""
    title = f"A failure every {format_time(found.mtbf_s)}; a checkpoint takes {last}{between}"
    write_figure(path, title, draw)
