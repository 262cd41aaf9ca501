"""An experiment of the lab as a picture: what was simulated, with its intervals, and the law beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from lockstep.base.errors import BadInput
from lockstep.show.views.parts.figure import PALETTE, make_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

    from lockstep.learn.lab import Curve, Findings

DASHES = ("--", ":", "-.")
UNITS = {"_per_s": "per second", "_Bps": "bytes per second", "_s": "seconds", "_B": "bytes", "_frac": "share"}
THICK, THIN = 2.8, 1.3
"""Widths of the first and of the last line: what lies below another one still shows."""
INSIDE = 3
"""Most names for which there is room among the lines."""
PLAIN = (1e-3, 1e5)
"""Between these a tick of a logarithmic axis is a plain number."""


def plot_findings(found: Findings) -> Figure:
    """Simulated curves solid or as points, theory dashed or as rings, a cross at a divergence."""
    title, draw = drawn_findings(found)
    return make_figure(title, draw)


def drawn_findings(found: Findings) -> tuple[str, Callable[[Axes], None]]:
    """(the question, how the curves are drawn into axes). Raises BadInput where there are none."""
    picture = found.picture
    if picture is None:
        raise BadInput(f"{found.experiment} gives a table; there is nothing to draw", "--plot")

    def draw(axes: Axes) -> None:
        simulated = [curve for curve in found.curves if not curve.theory]
        lines = sum(not curve.marks for curve in simulated)
        for place, curve in enumerate(simulated):
            _simulated(axes, curve, place, lines)
        theory = [curve for curve in found.curves if curve.theory]
        for place, curve in enumerate(theory):
            _theory(axes, curve, place, len(theory) == len(simulated))
        axes.set(xlabel=axis_name(picture.x), ylabel=axis_name(picture.y))
        if picture.log_x:
            axes.set_xscale("log")
            few_ticks(axes.xaxis)
        if picture.log_y:
            axes.set_yscale("log")
            if picture.least_y is not None:
                axes.set_ylim(bottom=picture.least_y)
                axes.set_ylabel(f"{axis_name(picture.y)} (below {picture.least_y:g} not shown)")
            few_ticks(axes.yaxis)
        legend = axes.legend(fontsize=8, frameon=False)
        if len(found.curves) > INSIDE:
            legend.set(loc="upper left", bbox_to_anchor=(1.0, 1.0))

    return picture.title or found.question, draw


def _theory(axes: Axes, curve: Curve, place: int, paired: bool) -> None:
    """A law, in the colour of its simulation where every simulation has one."""
    color = PALETTE[place % len(PALETTE)] if paired else "#555555"
    if curve.marks:
        axes.plot(curve.x, curve.y, "o", color=color, label=curve.label, markersize=8, markerfacecolor="none")
        return
    style = "--" if paired else DASHES[place % len(DASHES)]
    axes.plot(curve.x, curve.y, linestyle=style, linewidth=1.2, color=color, label=curve.label)


def few_ticks(axis: Axis) -> None:
    """Ticks of a logarithmic axis: decades, and 2 and 5 between them where there are few."""
    from matplotlib.ticker import FuncFormatter, LogFormatterSciNotation, LogLocator, NullFormatter

    low, high = sorted(axis.get_view_interval())
    subs = (1.0,) if low <= 0 or high / low > 100 else (1.0, 2.0, 5.0)
    axis.set_major_locator(LogLocator(subs=subs, numticks=9))
    axis.set_minor_formatter(NullFormatter())
    if PLAIN[0] <= low and high <= PLAIN[1]:
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    else:
        axis.set_major_formatter(LogFormatterSciNotation(labelOnlyBase=False))


def axis_name(name: str) -> str:
    """`time_s` as `time, seconds`."""
    for ending, unit in UNITS.items():
        if name.endswith(ending):
            what = name.removesuffix(ending).replace("_", " ")
            return unit if what == unit else f"{what}, {unit}"
    return name.replace("_", " ")


def _simulated(axes: Axes, curve: Curve, place: int, lines: int) -> None:
    """One curve with its interval and its end; `lines` of them are no points."""
    color, style = PALETTE[place % len(PALETTE)], ("-", *DASHES)[place // len(PALETTE) % (1 + len(DASHES))]
    width = THICK - (THICK - THIN) * min(place / max(lines - 1, 1), 1.0)
    if curve.marks:
        axes.plot(curve.x, curve.y, "o", color=color, label=curve.label, markersize=4)
    else:
        axes.plot(curve.x, curve.y, style, color=color, label=curve.label, linewidth=width if lines > 1 else THIN)
    if curve.half_ci95 is not None:
        low, high = curve.y - curve.half_ci95, curve.y + curve.half_ci95
        if curve.marks:
            axes.vlines(curve.x, low, high, color=color, linewidth=1)
        else:
            axes.fill_between(curve.x, low, high, color=color, alpha=0.2, linewidth=0)
    if curve.diverged_at is not None and len(curve.x):
        axes.plot([curve.x[-1]], [curve.y[-1]], marker="x", color=color, markersize=9)
