"""Bars of a picture: stacked ones whose parts are named in the bar where they fit, and plain ones with their values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.base.units import format_time
from lockstep.show.views.parts.figure import INK, ON_BAR, PALETTE, is_dark, times_on
from lockstep.show.views.parts.reading import mfu_column, notes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from matplotlib.axes import Axes

    from lockstep.decide.planner.estimate import Estimate

BLUE, ORANGE, GREEN, PINK, RED, PURPLE, GREY = PALETTE
SKY = "#56B4E9"
PART_COLOURS = {
    "compute": BLUE, "tp_comm": ORANGE, "pp_comm": GREEN, "dp_comm": PINK, "ep_comm": RED, "cp_comm": "#B5A400",
    "host_comm": SKY, "bubble": "#A9B3BD", "waiting": "#7D8994", "optimizer": PURPLE, "other": "#5E6A75",
    "generation": "#5E6A75",
}  # fmt: skip
"""Parts of a step have the same colour in every picture and on the page: traffic bright, idle time grey."""
MEMORY_COLOURS = {
    "parameters": GREEN,
    "gradients": PINK,
    "optimizer": ORANGE,
    "activations": BLUE,
    "buffers": SKY,
}
"""What fills memory, likewise."""
HEIGHT = 0.6
FEWEST = 3
"""Rows for which there is room at least, so that one bar is not as thick as a picture."""
LEAST_FRAC = 0.002
"""Parts below this share of every step shown are left out."""
LETTER = 0.068
"""Inches that a letter of size 8 takes."""


def stacked(
    axes: Axes,
    names: Sequence[str],
    parts: Mapping[str, Sequence[float]],
    ends: Sequence[str],
    *,
    colours: Mapping[str, str] | None = None,
    inches: float = 5.0,
    room: float = 1.3,
) -> None:
    """A bar per name, the first on top, cut into parts; `ends` stand behind the bars.

    A part is named inside its longest piece where the name fits there, all others in a legend below. `inches`: how wide
    the axes are; `room`: how far they reach beyond the longest bar.
    """
    left = [0.0] * len(names)
    sums = [sum(values[row] for values in parts.values()) for row in range(len(names))]
    letters = inches / LETTER / (room * (max(sums) or 1.0))
    for row, end in enumerate(ends):
        axes.text(sums[row], row, f" {end}", va="center", fontsize=8)
    outside = []
    for place, (part, values) in enumerate(parts.items()):
        colour = (colours or {}).get(part, PALETTE[place % len(PALETTE)])
        widest = max(range(len(names)), key=lambda row: values[row])
        made = axes.barh(range(len(names)), values, left=left, color=colour, height=HEIGHT, label=part)
        if values[widest] * letters > len(part) + 1:
            middle, ink = left[widest] + values[widest] / 2, "white" if is_dark(colour) else ON_BAR
            axes.text(middle, widest, part, ha="center", va="center", fontsize=8, color=ink, clip_on=True)
        else:
            outside.append(made)
        left = [before + value for before, value in zip(left, values, strict=True)]
    rows(axes, names)
    axes.set_xlim(0, room * (max(sums) or 1.0))
    if outside:
        axes.legend(handles=outside, fontsize=8, frameon=False, ncols=3, loc="upper left", bbox_to_anchor=(0.0, -0.18))


def steps(
    axes: Axes, names: Sequence[str], found: Sequence[Estimate], words: Mapping[str, str], *, inches: float
) -> None:
    """A bar per step, cut into its parts, with its time and utilisation behind it."""
    parts = [one.step.breakdown_s() for one in found]
    shown = [part for part in words if any(one[part] > LEAST_FRAC * sum(one.values()) for one in parts)]
    note, used = mfu_column([one.utilisation for one in found])
    stacked(
        axes, names, {words[part]: [one[part] for one in parts] for part in shown},
        [f"{format_time(one.step_time_s)}, {mfu} MFU" for one, mfu in zip(found, used, strict=True)],
        colours={words[part]: PART_COLOURS[part] for part in shown}, inches=inches, room=1.4,
    )  # fmt: skip
    times_on(axes.xaxis)
    axes.set_xlabel(notes("exposed time of a step by part", note))


def rows(axes: Axes, names: Sequence[str]) -> None:
    """Names of bars, the first on top, without ticks."""
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.set_ylim(max(len(names), FEWEST) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)


def plain(
    axes: Axes,
    names: Sequence[str],
    values: Sequence[float],
    show: Callable[[float], str],
    *,
    colours: Sequence[str] | str = BLUE,
    log: bool = False,
) -> None:
    """A bar per name with its value behind it, below 0 to the left; on a logarithmic axis a dot."""
    from matplotlib.ticker import FuncFormatter

    reach = max((abs(value) for value in values), default=0.0) or 1.0
    if log:
        # A bar on a logarithmic axis has no meaningful length.
        axes.scatter(values, range(len(names)), s=40, color=colours)
        axes.set_xscale("log")
        least = min(value for value in values if value > 0)
        axes.set_xlim(least / 2, reach * (reach / least) ** 0.35 * 2)
        axes.minorticks_off()
    else:
        axes.barh(range(len(names)), values, color=colours, height=HEIGHT)
        signed = min(values, default=0.0) < 0
        axes.set_xlim(-1.4 * reach if signed else 0.0, 1.4 * reach if signed else 1.3 * reach)
        if signed:
            axes.axvline(0.0, color=INK, linewidth=0.8)
    space = "   " if log else " "
    for row, value in enumerate(values):
        side = "right" if value < 0 else "left"
        axes.text(value, row, f"{space}{show(value)} ", va="center", ha=side, fontsize=8)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: show(value)))
    rows(axes, names)
