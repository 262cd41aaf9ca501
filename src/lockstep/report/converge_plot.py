"""An experiment of the lab as a picture: what was simulated, with its intervals, and the law beside it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.converge import Curve, Findings
from lockstep.converge.sweep import Sweep
from lockstep.errors import BadInput
from lockstep.report.figure import write_figure
from lockstep.report.timeline_plot import PALETTE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DASHES = ("--", ":", "-.")
UNITS = {"_per_s": "per second", "_Bps": "bytes per second", "_s": "seconds", "_B": "bytes", "_frac": "share"}


def plot_findings(found: Findings | Sweep, path: Path) -> None:
    """Writes the picture: simulated curves solid or as points, theory dashed, a cross where a run diverged."""
    picture = found.picture
    if picture is None:
        raise BadInput(f"{found.experiment} gives a table; there is nothing to draw", "--plot")

    def draw(axes: Axes) -> None:
        simulated = [curve for curve in found.curves if not curve.theory]
        for place, curve in enumerate(simulated):
            _simulated(axes, curve, PALETTE[place % len(PALETTE)])
        for place, curve in enumerate(curve for curve in found.curves if curve.theory):
            paired = len(simulated) == sum(one.theory for one in found.curves)
            color = PALETTE[place % len(PALETTE)] if paired else "#555555"
            style = "--" if paired else DASHES[place % len(DASHES)]
            axes.plot(curve.x, curve.y, linestyle=style, linewidth=1.2, color=color, label=curve.label)
        axes.set(xlabel=_axis(picture.x), ylabel=_axis(picture.y))
        axes.set_xscale("log" if picture.log_x else "linear")
        axes.set_yscale("log" if picture.log_y else "linear")
        axes.legend(fontsize=8, frameon=False)

    write_figure(path, found.question, draw)


def _axis(name: str) -> str:
    """`time_s` as `time, seconds`."""
    for ending, unit in UNITS.items():
        if name.endswith(ending):
            return f"{name.removesuffix(ending)}, {unit}".replace("_", " ")
    return name.replace("_", " ")


def _simulated(axes: Axes, curve: Curve, color: str) -> None:
    """One curve with its interval and its end."""
    axes.plot(curve.x, curve.y, "o" if curve.marks else "-", color=color, label=curve.label, markersize=4)
    if curve.half_ci95 is not None:
        low, high = curve.y - curve.half_ci95, curve.y + curve.half_ci95
        if curve.marks:
            axes.vlines(curve.x, low, high, color=color, linewidth=1)
        else:
            axes.fill_between(curve.x, low, high, color=color, alpha=0.2, linewidth=0)
    if curve.diverged_at is not None and len(curve.x):
        axes.plot([curve.x[-1]], [curve.y[-1]], marker="x", color=color, markersize=9)
