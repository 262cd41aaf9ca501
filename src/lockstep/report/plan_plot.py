"""A plan as a picture: where the best layouts' step goes, and what less memory costs in time."""

from __future__ import annotations

from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

from lockstep.planner import Estimate, Plan
from lockstep.report.estimate_table import PART_WORDS
from lockstep.report.figure import times_on, write_figure
from lockstep.report.plan_table import FRONT_SLOWEST, readable_front
from lockstep.report.timeline_plot import PALETTE
from lockstep.units import format_frac, format_time

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GIB = 2.0**30
NAME_WIDTH = 28
LEAST_FRAC = 0.002
"""Parts below this share of every step shown have no colour in the legend."""


def plot_plan(plan: Plan, path: Path) -> None:
    """Writes both panels; the ending of `path` chooses the format."""
    title = f"{plan.job.model.name} on {plan.job.devices} x {plan.cluster.device.name}"
    write_figure(path, title, lambda axes: _parts(plan, axes), lambda axes: _front(plan, axes), size=(13.0, 4.5))


def _parts(plan: Plan, axes: Axes) -> None:
    """A bar per listed layout, best on top, cut into the parts of its step."""
    steps = [one.step.breakdown_s() for one in plan.plans]
    names = [fill(str(one.layout), NAME_WIDTH) for one in plan.plans]
    shown = [part for part in PART_WORDS if any(step[part] > LEAST_FRAC * sum(step.values()) for step in steps)]
    left = [0.0] * len(steps)
    for place, part in enumerate(shown):
        widths = [step[part] for step in steps]
        colour = PALETTE[place % len(PALETTE)]
        axes.barh(range(len(steps)), widths, left=left, color=colour, height=0.6, label=PART_WORDS[part])
        left = [before + width for before, width in zip(left, widths, strict=True)]
    for row, one in enumerate(plan.plans):
        label = f" {format_time(one.step_time_s)}, {format_frac(one.mfu_frac)} MFU"
        axes.text(left[row], row, label, va="center", fontsize=8)
    axes.set_yticks(range(len(steps)), names, fontsize=8)
    axes.invert_yaxis()
    axes.set(xlim=(0, 1.3 * max(left)), xlabel="step, exposed time by part")
    times_on(axes.xaxis)
    axes.legend(fontsize=8, frameon=False, ncols=3, loc="upper left", bbox_to_anchor=(0.0, -0.15))


def _front(plan: Plan, axes: Axes) -> None:
    """The Pareto front, as far as the table shows it, whose rows are named."""
    near = [one for one in plan.front if one.step_time_s <= FRONT_SLOWEST * plan.front[0].step_time_s]
    axes.plot([_memory_GiB(one) for one in near], [one.step_time_s for one in near], ".", color="#BBBBBB")
    for place, one in enumerate(readable_front(plan.front)):
        at = _memory_GiB(one), one.step_time_s
        axes.plot(*at, "o", color=PALETTE[place % len(PALETTE)], label=str(one.layout))
    capacity = plan.best.memory.capacity_B / GIB
    axes.axvline(capacity, color="#333333", linestyle=":", label=f"memory of the device, {capacity:.3g} GiB")
    axes.set(xlim=(0, 1.03 * capacity), xlabel="memory of the fullest device, GiB", ylabel="step, Pareto front")
    times_on(axes.yaxis)
    axes.legend(fontsize=8, frameon=False, loc="upper right", bbox_to_anchor=(0.98, 1.0))


def _memory_GiB(one: Estimate) -> float:
    return float(one.memory.total_B) / GIB
