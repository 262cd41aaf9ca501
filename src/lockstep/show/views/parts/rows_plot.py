"""Answers for several values as curves: over the first option, one line for each value of the second or each name."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lockstep.base.errors import BadInput
from lockstep.base.rows.choice import choice
from lockstep.base.rows.columns import Column, Series, columns, shown
from lockstep.base.units import format_count
from lockstep.show.views.parts.choice_plot import plot_choice
from lockstep.show.views.parts.figure import PALETTE, make_figure, sizes_on, times_on

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

    from lockstep.base.rows import Rows

MOST_LINES, MOST_TICKS = 8, 12
STYLES = ("-", "--", ":")
WIDE = 12
"""Positive values whose largest is so many times the smallest are drawn on a logarithmic axis."""
Line = tuple[str, list[tuple[float, float]]]


def plot_rows(found: Rows, keys: Sequence[str], series: Series | None) -> Figure:
    """The curves of the first figure, and of the second where there is one; of two options that are names, a choice.

    Raises BadInput for three lists of which two are not names.
    """
    chosen = None if series else choice(found, keys)
    if chosen is not None:
        return plot_choice(chosen, f"{found.verb} by {' and '.join(found.options)}".replace("_", " "))
    if len(found.options) > 2:
        raise BadInput("a picture shows one or two options with several values", "--plot")
    figures = columns(found, keys, series)
    if not figures:
        raise BadInput("no number of the answer changes; there is nothing to draw", "--plot")
    if series and len(found.options) == 1:
        panels = [("time" if series[1] == "time_s" else series[1], figures[0], _named(found, figures))]
    elif series:
        best = _best(figures)
        panels = [(f"best {best.label}", best, _lines(found, best))]
    else:
        panels = [(one.label, one, _lines(found, one)) for one in _drawn(figures)[:2]]

    def panel(title: str, column: Column, lines: list[Line]) -> Any:
        def draw(axes: Axes) -> None:
            _draw(axes, found.options[0], title, column, lines)

        return draw

    title = f"{found.verb} by {' and '.join(found.options)}".replace("_", " ")
    return make_figure(title, *(panel(*one) for one in panels), size=(5.5 * len(panels) + 1.0, 4.5))


def _drawn(figures: list[Column]) -> list[Column]:
    """Those that change, or the first."""
    plain = [one for one in figures if not any(isinstance(value, Mapping) for value in one.values)]
    return [one for one in plain if len(set(one.values) - {None}) > 1] or plain[:1]


def _lines(found: Rows, column: Column) -> list[Line]:
    """One line for each value of the second option, or one for all."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for row, value in zip(found.rows, column.values, strict=True):
        first, *second = row.point.values()
        name = f"{found.options[1].replace('_', ' ')} {row.given[found.options[1]]}" if second else ""
        if isinstance(first, int | float) and isinstance(value, int | float):
            lines.setdefault(name, []).append((first, value))
    return list(lines.items())


def _named(found: Rows, figures: list[Column]) -> list[Line]:
    """One line for each name of a series, those that win most often first."""
    return [(one.label, points) for one in figures[:MOST_LINES] for _, points in _lines(found, one)]


def _best(figures: list[Column]) -> Column:
    """The least of every row."""
    rows = zip(*(one.values for one in figures), strict=True)
    least = tuple(min((v for v in row if v is not None), default=None) for row in rows)
    return Column(figures[0].key, figures[0].key.removesuffix("_s").replace("_", " "), least)


def _draw(axes: Axes, option: str, title: str, column: Column, lines: list[Line]) -> None:
    if not lines:
        raise BadInput(f"--{option.replace('_', '-')} has no numbers to draw over", "--plot")
    for place, (name, points) in enumerate(lines[:MOST_LINES]):
        x, y = zip(*sorted(points), strict=True)
        style = STYLES[place // len(PALETTE) % len(STYLES)]
        axes.plot(x, y, style, marker=".", color=PALETTE[place % len(PALETTE)], label=name or None)
    axes.set(xlabel=option.replace("_", " "), ylabel=title)
    x_values, y_values = ([point[place] for _, points in lines for point in points] for place in (0, 1))
    if wide_x := _wide(x_values):
        axes.set_xscale("log")
    if wide_y := _wide(y_values):
        axes.set_yscale("log")
    _ticks(axes.xaxis, f"{option}_B" if option == "size" else option, wide_x, x_values)
    _ticks(axes.yaxis, column.key, wide_y, y_values)
    if any(name for name, _ in lines):
        axes.legend(fontsize=8, frameon=False)


def _wide(values: list[float]) -> bool:
    return min(values) > 0 and max(values) / min(values) >= WIDE


def _ticks(axis: Axis, key: str, wide: bool, values: list[float]) -> None:
    """Ticks in the units of the key: at the values themselves where these are few and far apart."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    if wide:
        axis.set_minor_locator(NullLocator())
        if axis.get_label_position() == "bottom" and len(set(values)) <= MOST_TICKS:
            axis.set_major_locator(FixedLocator(sorted(set(values))))
    if key.endswith("_s") and not key.endswith("_per_s"):
        times_on(axis)
    elif key.endswith("_B") and wide:
        sizes_on(axis)
    elif key.endswith("_per_s"):
        digits = _digits(values)
        axis.set_major_formatter(FuncFormatter(lambda value, _: format_count(value, digits)))
    else:
        axis.set_major_formatter(FuncFormatter(lambda value, _: shown(key, _whole(value))))


def _digits(values: list[float]) -> int:
    """Digits that tell the ticks of an axis apart, at least three."""
    apart = (max(values) - min(values)) / MOST_TICKS
    return max(3, math.ceil(math.log10(max(map(abs, values)) / apart))) if apart > 0 else 3


def _whole(value: float) -> float:
    """A whole number as one."""
    return int(value) if float(value).is_integer() else float(value)
