"""An item as a picture: the claimed law in red, the true law in grey, what was found as marks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.errors import BadInput
from lockstep.views.parts.figure import PALETTE, make_figure
from lockstep.views.parts.findings_plot import few_ticks, plot_findings

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from lockstep.evidence.claims.pictures import Picture
    from lockstep.verbs.claims import Claims

CLAIMED = "#D62728"


STYLES = {"claimed": ":", "true": "-", "found": "o", "joined": "o-", "curve": "-", "wrong": "x"}
COLORS = {"claimed": CLAIMED, "wrong": CLAIMED, "true": "#555555"}
CONVERGE = "lockstep converge "


def plot_claim(found: Claims) -> Figure:
    """The picture of the first item: its own, or that of the experiment that decides it."""
    from lockstep.evidence.claims.pictures import picture_of

    entry = found.entries[0].entry if found.entries else None
    picture = None if entry is None else picture_of(entry)
    if picture is not None:
        return _plot(picture)
    if entry is not None and entry.command.startswith(CONVERGE):
        from lockstep.lab import find_experiment

        name = entry.command.removeprefix(CONVERGE).split()[0]
        return plot_findings(find_experiment(name).answer({}))
    named = "this" if entry is None else entry.id
    also = f"; its command has one: {entry.command} --plot FILE" if entry is not None and entry.command else ""
    raise BadInput(f"{named} has no picture of its own{also}", "--plot")


def _plot(picture: Picture) -> Figure:
    def draw(axes: Axes) -> None:
        others = 0
        for line in picture.lines:
            color = COLORS.get(line.kind, PALETTE[others % len(PALETTE)])
            others += line.kind not in COLORS
            axes.plot(line.x, line.y, STYLES[line.kind], color=color, label=line.label, linewidth=1.6, markersize=5)
        if picture.log_x:
            axes.set_xscale("log")
            few_ticks(axes.xaxis)
        if picture.log_y:
            axes.set_yscale("log")
            few_ticks(axes.yaxis)
        axes.set(xlabel=picture.x, ylabel=picture.y)
        axes.legend(fontsize=8, frameon=False)

    return make_figure(picture.title, draw)
