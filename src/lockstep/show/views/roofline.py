"""`lockstep roofline`: communication roofline, one per level of the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from lockstep.base.units import format_bandwidth, format_count, format_flops, format_frac, format_size
from lockstep.show.views.parts.command import Command
from lockstep.show.views.parts.figure import INK, PALETTE, make_figure
from lockstep.show.views.parts.layout_columns import layout_words
from lockstep.show.views.parts.terminal import bar, heading, indented, small_print, table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import Console

    from lockstep.decide.planner.roofline import Roofline, RooflineLevel


ASSUMPTIONS = 2
_TITLES = [("level", "left"), ("moves", "right"), ("mostly", "left"), ("at", "right"), ("intensity", "right")]
_TITLES += [("ridge", "right"), ("bound by", "left"), ("traffic", "right"), ("", "left")]


def render(found: Roofline, out: Console) -> None:
    """Prints the roofline."""
    from lockstep.decide.planner.assumptions import assumptions

    job = found.job
    out.print(Text(found.regime().capitalize(), style="bold"))
    out.print(f"{job.model.name} on {job.devices} x {found.cluster.device.name}: {layout_words(found.layout)}")
    held = found.memory
    if not bool(held.fits):
        total, capacity = format_size(float(held.total_B)), format_size(held.capacity_B)
        said = f"It does not fit in memory: {total} of {capacity} per device. What follows is as if it did."
        out.print(Text(said, style="red"))
    heading(out, "Levels", "one device, one step; bytes by rings; traffic over compute")
    indented(out, table(_TITLES, (_row(level) for level in found.levels)))
    now = _tokens(job.step_units)
    heading(out, "Critical batch", f"{job.unit} at which data-parallel traffic is hidden; now {now}")
    rows = ((level.name, _tokens(level.critical_batch), level.critical_why) for level in found.levels[1:])
    indented(out, table([("level", "left"), (job.unit, "right"), ("", "text")], rows))
    small_print(out, "Assumptions", assumptions(job, found.cluster, found.layout), ASSUMPTIONS)


def _row(level: RooflineLevel) -> list[str | Text]:
    intensity = level.intensity_flop_per_B
    return [
        level.name,
        format_size(level.bytes_B),
        level.mostly if level.bytes_B else "",
        format_bandwidth(level.achieved_Bps),
        "" if intensity is None else format_count(intensity),
        format_count(level.ridge_flop_per_B),
        Text(level.bound, style="green" if level.bound == "compute" else "red"),
        format_frac(level.share),
        bar(level.share, 8),
    ]


def _tokens(number: int | None) -> str:
    return "-" if number is None else format_count(number)


MOST_RIGHT = 2
"""Levels whose name stands to the right of their dot; the outer ones, far to the right, have it on the left."""
REACH = 6.0
"""The picture goes this many times beyond the ridges and intensities."""


def plot_roofline(found: Roofline) -> Figure:
    """What each level of memory and network sustains by FLOPs per byte, and where the step lies on it."""
    used = [level for level in found.levels if level.intensity_flop_per_B]
    peak = max(level.achieved_flops for level in found.levels)
    network = found.levels[-1].achieved_flops

    def draw(axes: Axes) -> None:
        places = [x for level in used for x in (level.intensity_flop_per_B or 1.0, level.ridge_flop_per_B)]
        low, high = min(places, default=1.0) / REACH, max(places, default=1.0) * REACH
        axes.text(low, peak, f" arithmetic alone: {format_flops(peak)}", fontsize=8, va="bottom")
        axes.text(low, network, f" kernels: {format_flops(network)}", fontsize=8, va="top")
        for roof in (peak, network):
            axes.plot([low, high], [roof, roof], color=INK, linewidth=0.8, linestyle="--")
        dots = [_level(axes, level, PALETTE[place], place, (low, high), peak) for place, level in enumerate(used)]
        axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(min(dots, default=peak) / 30, peak * 40))
        axes.set(xlabel="FLOPs per byte moved", ylabel="attainable FLOP/s of one device")

    title = found.regime().split(":")[0] + ("" if bool(found.memory.fits) else ", if it fitted in memory")
    return make_figure(title[0].upper() + title[1:], draw)


def _level(axes: Axes, level: RooflineLevel, colour: str, place: int, ends: tuple[float, float], peak: float) -> float:
    """One level's roof, bent at its ridge, its dot, and its name above all lines; returns the FLOP/s at the dot."""
    rate, x = level.achieved_Bps, level.intensity_flop_per_B or 1.0
    attained, above, roof = level.attained_flops, peak * 2.2 ** (1 + place), level.achieved_flops
    low, high = ends
    axes.plot([low, level.ridge_flop_per_B, high], [low * rate, roof, roof], color=colour, linewidth=1.5)
    axes.plot([x, x], [attained, above], color=colour, linewidth=0.8, linestyle=":")
    axes.plot([x], [attained], "o", color=colour, markersize=8)
    said = f"{level.name}, {format_bandwidth(rate)}: {format_count(x)} FLOP/B, {level.bound} bound"
    axes.text(x, above, f" {said}", fontsize=8, va="center", ha="left" if place < MOST_RIGHT else "right")
    return attained


COMMAND = Command(
    examples=("lockstep roofline llama3-8b -c dgx-h100:16 --batch 512 --tp 4 --zero 1 --sequence-parallel",),
    render=render,
    picture=plot_roofline,
    figures=("compute_s", "batch_tokens"),
)
