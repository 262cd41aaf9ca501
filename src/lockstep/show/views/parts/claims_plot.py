"""An item as a picture: the claimed law in red, the true law in grey, what was found as marks."""

from __future__ import annotations

from functools import partial
from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np

from lockstep.base.errors import BadInput, UnknownName
from lockstep.show.views.parts.claims_compared import compared, draw_compared
from lockstep.show.views.parts.figure import INK, PALETTE, make_figure
from lockstep.show.views.parts.findings_plot import drawn_findings, few_ticks
from lockstep.show.views.parts.output import pairs
from lockstep.show.views.parts.timelines import draw_timeline

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from lockstep.check.evidence.claims.decide import Decided
    from lockstep.check.evidence.claims.entry import Entry
    from lockstep.check.evidence.claims.picture import Line, Picture
    from lockstep.show.verbs.claims import Claims

CLAIMED = "#D62728"


STYLES = {
    "claimed": ":", "true": "-", "found": "o", "joined": "o-", "curve": "-", "dashed": "--", "wrong": "x", "steps": "-",
    "limit": "-.",
}  # fmt: skip
COLORS = {"claimed": CLAIMED, "wrong": CLAIMED, "true": "#555555", "limit": INK}
ACROSS, WIDTH = 3, 68
"""Most pictures in a row, and letters in a line of the title of one of several."""
FEW = 3
"""Lines for whose names there is room inside the axes."""
BARS = 0.8
"""Height of the bars of a row."""
PASSES = {"F": "forward", "B": "backward"}
"""What labels of a timeline mean."""
CONVERGE = "lockstep converge "


def has_picture(entry: Entry) -> bool:
    """Whether `plot_claim` draws it."""
    return bool(entry.figures) or entry.command.startswith(CONVERGE) or bool(compared(entry))


def plot_claim(found: Claims, figure: str = "") -> Figure:
    """The pictures of an item: its own, or that of its experiment and what is claimed of each number; one by name."""
    from lockstep.check.evidence.claims.pictures import pictures, pictures_of

    drawn = [one for one in found.entries if has_picture(one.entry)]
    if not drawn:
        raise BadInput(f"{found.entries[0].entry.id if found.entries else 'this'} has no picture", "--plot")
    if len(drawn) > 1:
        raise BadInput(f"draws one item, not {', '.join(one.entry.id for one in drawn)}", "--plot")
    (one,) = drawn
    if figure and figure not in one.entry.figures:
        raise UnknownName("figure", figure, one.entry.figures, "--figure")
    if figure:
        return plot_pictures(pictures(figure))
    if own := pictures_of(one.entry):
        return plot_pictures(own)
    panels = _panels(one, found.seed)
    draws = [partial(_titled, fill(title, 58), draw) for title, draw in panels]
    return make_figure(panels[0][0], *draws, size=(8.0 if len(draws) == 1 else 14.0, 5.0))


def _panels(one: Decided, seed: int) -> list[tuple[str, Callable[[Axes], None]]]:
    """(title, how it is drawn) of the experiment of an item, and of its numbers; each experiment runs once."""
    from lockstep.learn.lab import each_run_once, find_experiment

    panels, entry = [], one.entry
    with each_run_once():
        if entry.command.startswith(CONVERGE):
            name, *more = entry.command.removeprefix(CONVERGE).split()
            settings = pairs([word for word in more if word != "--set"])
            panels.append(drawn_findings(find_experiment(name).answer(settings, seed)))
        if compared(entry):
            panels.append((f"How far is what {entry.id} claims from what is found?", draw_compared(one)))
    return panels


def _titled(title: str, draw: Callable[[Axes], None], axes: Axes) -> None:
    draw(axes)
    axes.set_title(title, loc="left", fontsize=10)


def plot_pictures(pictures: Sequence[Picture]) -> Figure:
    """One or several next to each other, in rows of three at most, each with its question."""
    draws = [partial(_draw, picture) for picture in pictures]
    if len(draws) == 1:
        return make_figure(pictures[0].title, *draws)
    rows = -(-len(draws) // ACROSS)
    figure = make_figure(pictures[0].title, *draws, size=(6.5 * -(-len(draws) // rows), 5.0 * rows), rows=rows)
    for picture, axes in zip(pictures, figure.axes, strict=False):
        axes.set_title(fill(picture.title, WIDTH), loc="left", fontsize=10)
    return figure


def _draw(picture: Picture, axes: Axes) -> None:
    if picture.timeline is not None:
        busy_s = picture.timeline.busy_s()
        draw_timeline(picture.timeline, axes, [lane for lane in picture.timeline.lanes if busy_s[lane] > 0])
        if (legend := axes.get_legend()) is not None:
            for text in legend.texts:
                text.set_text(PASSES.get(text.get_text(), text.get_text()))
        return
    others = 0
    for place, line in enumerate(picture.lines):
        color = COLORS.get(line.kind, PALETTE[others % len(PALETTE)])
        others += line.kind not in COLORS
        _draw_line(line, axes, color, place / max(len(picture.lines), 1), len(picture.lines))
    _finish(picture, axes)


def _draw_line(line: Line, axes: Axes, color: str, part: float, number: int) -> None:
    """One of `number` lines, after a `part` of them; the first ones are wider, so that what lies below still shows."""
    if line.half is not None:
        axes.errorbar(line.x, line.y, line.half, fmt="o", color=color, label=line.label, markersize=5, capsize=3)
        return
    if line.kind == "bars":
        axes.barh(np.asarray(line.x) + BARS * part, line.y, height=BARS / number, color=color, label=line.label)
        return
    wider = 1.8 * (1 - part) if line.kind in ("joined", "curve") else 0.0
    size, above = (8.0, 3) if line.kind == "wrong" else (4 + 1.5 * wider, 2)
    axes.plot(
        line.x, line.y, STYLES[line.kind], color=color, label=line.label, linewidth=1.2 + wider, markersize=size,
        zorder=above, drawstyle="steps-mid" if line.kind == "steps" else "default",
    )  # fmt: skip


def _finish(picture: Picture, axes: Axes) -> None:
    """Scales, names of axes and bars, and the legend."""
    if picture.log_x:
        axes.set_xscale("log")
        few_ticks(axes.xaxis)
    if picture.log_y:
        axes.set_yscale("log")
        few_ticks(axes.yaxis)
    axes.minorticks_off()
    axes.set(xlabel=picture.x, ylabel=picture.y)
    if picture.rows:
        axes.set_yticks(np.arange(len(picture.rows)) + (BARS - BARS / len(picture.lines)) / 2, picture.rows, fontsize=8)
        axes.invert_yaxis()
    if picture.least_y is not None:
        axes.set_ylim(bottom=picture.least_y)
    legend = axes.legend(fontsize=8, frameon=False)
    if len(picture.lines) > FEW:
        legend.remove()
        axes.legend(fontsize=8, frameon=False, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.13))
