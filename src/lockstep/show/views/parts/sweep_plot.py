"""A sweep of an experiment as a picture: its results over the swept setting, a panel for each unit, laws dashed."""

from __future__ import annotations

from math import log2
from typing import TYPE_CHECKING

from lockstep.show.views.parts.figure import PALETTE, make_figure
from lockstep.show.views.parts.findings_plot import DASHES, few_ticks
from lockstep.show.views.parts.findings_table import cell, title
from lockstep.show.views.parts.sweep_panels import MOST_LINES, Line, Panel, panels, swept_numbers

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

    from lockstep.learn.lab.sweep import Sweep

INSIDE = 3
"""Most names for which there is room among the lines."""
WIDE = 8
"""Swept values whose largest is so many times the smallest are drawn on a logarithmic axis."""
MOST_TICKS = 10
MARKERS = ("o", "s", "^", "D")
GREY = "#555555"


def plot_sweep(found: Sweep) -> Figure:
    """The picture. Raises `BadInput` where not one setting with numbers was swept."""
    x = swept_numbers(found)
    swept = found.points[0].swept[0][0]
    made = panels(found)
    names = [tuple(line.label for line in panel.lines) for panel in made]

    def panel(place: int) -> Callable[[Axes], None]:
        def draw(axes: Axes) -> None:
            _draw(axes, made[place], named=names[place] not in names[place + 1 :])
            axes.set(xlabel=title(swept), ylabel=made[place].title)
            _swept_on(axes.xaxis, swept, sorted(set(x)))

        return draw

    rows = 2 if len(made) > 2 else 1
    across = -(-len(made) // rows)
    heading = f"{found.question}\n{_runs(found)}"
    draws = [panel(place) for place in range(len(made))]
    return make_figure(heading, *draws, size=(5.0 * across + 3.0, 4.0 * rows + 0.5), rows=rows)


def _runs(found: Sweep) -> str:
    seeds = found.points[0].seeds
    return f"means of {seeds} seeds with 95 % intervals" if seeds > 1 else "one seed"


def _draw(axes: Axes, panel: Panel, named: bool) -> None:
    """The lines of a panel, and their names where no later panel has the same."""
    others = 0
    for line in panel.lines:
        if line.law and line.place < 0:
            axes.plot(*_xy(line), DASHES[others % len(DASHES)], color=GREY, linewidth=1.2, label=line.label)
            others += 1
        elif line.law:
            axes.plot(*_xy(line), "--", color=_color(line), linewidth=1.2)
        else:
            _result(axes, line)
    if panel.law_word and any(line.law for line in panel.lines):
        axes.plot([], [], "--", color=GREY, linewidth=1.2, label=panel.law_word)
    if panel.log_y:
        axes.set_yscale("log")
        few_ticks(axes.yaxis)
    _units_on(axes.yaxis, panel.key)
    if named:
        _legend(axes, panel)


def _swept_on(axis: Axis, key: str, values: list[float]) -> None:
    """Ticks at the swept values where these are few; a logarithmic axis where they are far apart."""
    from matplotlib.ticker import FixedLocator, NullLocator

    if values[0] > 0 and values[-1] >= WIDE * values[0]:
        axis.axes.set_xscale("log")
        few_ticks(axis)
        if len(values) <= MOST_TICKS:
            axis.set_major_locator(FixedLocator(values))
            axis.set_minor_locator(NullLocator())
            axis.set_major_formatter(lambda value, _: cell(key, value))
    _units_on(axis, key)


def _units_on(axis: Axis, key: str) -> None:
    """Ticks as a person says them, where the name of the column ends on a unit."""
    if not key.endswith("_per_s") and key.endswith(("_s", "_B", "_Bps", "_frac")):
        axis.set_major_formatter(lambda value, _: cell(key, value))
    if key.endswith("_B") and axis.get_scale() == "linear":
        from matplotlib.ticker import MultipleLocator

        axis.set_major_locator(MultipleLocator(2.0 ** (int(log2(max(*axis.get_view_interval(), 4.0))) - 2)))


def _result(axes: Axes, line: Line) -> None:
    x, y = _xy(line)
    axes.plot(
        x,
        y,
        f"{MARKERS[line.column % len(MARKERS)]}-",
        color=_color(line),
        linewidth=1.2,
        markersize=4,
        label=line.label,
    )
    low, high = ([point[end] for point in line.points] for end in (2, 3))
    if (low, high) != (y, y):
        axes.fill_between(x, low, high, color=_color(line), alpha=0.15, linewidth=0)


def _legend(axes: Axes, panel: Panel) -> None:
    drawn = sum(not line.law for line in panel.lines)
    note = f"{drawn} of {panel.results} results" if panel.results > MOST_LINES else None
    _, labels = axes.get_legend_handles_labels()
    if len(labels) < 2 and not note:
        return
    legend = axes.legend(fontsize=8, frameon=False, title=note, title_fontsize=8)
    if len(labels) > INSIDE or note:
        legend.set(loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _color(line: Line) -> str:
    return PALETTE[line.place % len(PALETTE)]


def _xy(line: Line) -> tuple[list[float], list[float]]:
    return [point[0] for point in line.points], [point[1] for point in line.points]
