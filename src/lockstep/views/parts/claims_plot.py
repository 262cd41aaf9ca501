"""An item as a picture: the claimed law in red, the true law in grey, what was found as marks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.views.parts.figure import PALETTE, write_figure
from lockstep.views.parts.findings_plot import few_ticks

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes

    from lockstep.verbs.claims import Claims

CLAIMED = "#D62728"


def plot_claim(found: Claims, path: Path) -> None:
    """Writes the picture of the item, or of its checks where it has none of its own."""
    from lockstep.evidence.claims.pictures import picture_of

    picture = picture_of(found.entries[0].entry if found.entries else None)

    def draw(axes: Axes) -> None:
        for place, line in enumerate(picture.lines):
            color = CLAIMED if line.kind == "claimed" else "#555555" if line.kind == "true" else PALETTE[place % 7]
            style = {"claimed": ":", "true": "-", "found": "o", "joined": "o-"}[line.kind]
            axes.plot(line.x, line.y, style, color=color, label=line.label, linewidth=1.6, markersize=5)
        if picture.log_x:
            axes.set_xscale("log")
            few_ticks(axes.xaxis)
        if picture.log_y:
            axes.set_yscale("log")
            few_ticks(axes.yaxis)
        axes.set(xlabel=picture.x, ylabel=picture.y)
        axes.legend(fontsize=8, frameon=False)

    write_figure(path, picture.title, draw)
