"""Series that two runs recorded, one below the other: the first grey, the second coloured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.errors import BadInput
from lockstep.report.figure import write_figure
from lockstep.report.timeline_plot import PALETTE
from lockstep.store import Comparison

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PREFERRED = ("loss", "time_s", "accuracy")


def plot_series(found: Comparison, path: Path) -> None:
    """Writes the series both have that says most: the loss if there is one. Raises BadInput when they share none."""
    series = found.series
    if not series:
        raise BadInput("the two runs recorded no series in common", "--plot")
    name = next((one for one in PREFERRED if one in series), next(iter(series)))

    def draw(axes: Axes) -> None:
        for run, values, colour in zip((found.first, found.second), series[name], ("0.6", PALETTE[0]), strict=True):
            axes.plot(values, color=colour, label=run.label or run.id)
        axes.set(xlabel="event", ylabel=name)
        axes.legend(fontsize=8, frameon=False)

    write_figure(path, f"{name} of two runs", draw)
