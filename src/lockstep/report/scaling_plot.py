"""Scaling as a picture: speed-up over devices, and days over dollars where there is a target."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.campaigns import Scaling
from lockstep.report.figure import write_figure
from lockstep.report.timeline_plot import PALETTE
from lockstep.units import format_time

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_scaling(found: Scaling, path: Path) -> None:
    """Writes the curve beside the ideal line, the last size that helps marked."""
    devices = [one.devices for one in found.sizes]

    def draw(axes: Axes) -> None:
        axes.plot(devices, [number / devices[0] for number in devices], color="#cccccc", linestyle=":", label="ideal")
        axes.plot(devices, [one.speedup for one in found.sizes], "o-", color=PALETTE[0], label="planned")
        last = found.last_helping
        axes.plot([last.devices], [last.speedup], "o", color=PALETTE[4], markersize=9, label="last that helps")
        for one in found.sizes:
            label = format_time(one.run.wall_s) if one.run is not None else f"{one.efficiency_frac:.0%}"
            axes.annotate(label, (one.devices, one.speedup), fontsize=7, xytext=(4, -9), textcoords="offset points")
        axes.set(xscale="log", yscale="log", xlabel="devices", ylabel="speed-up over the smallest size")
        axes.set_xticks(devices, [str(number) for number in devices], rotation=45)
        axes.minorticks_off()
        axes.legend(fontsize=8, frameon=False)

    first = found.sizes[0].estimate
    kind = "Weak" if found.weak else "Strong"
    write_figure(path, f"{kind} scaling of {first.job.model.name} on {first.cluster.device.name}", draw)
