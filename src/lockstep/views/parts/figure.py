"""The house style of pictures: one figure, quiet axes, the same file for the same answer.

A picture is a function that returns a `Figure`; `save_figure` writes it. No window is opened and no state of pyplot is
touched, whatever backend was chosen.
"""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

from lockstep.errors import BadInput
from lockstep.units import format_size, format_time

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

    from lockstep.types.plain import Json

PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#F0E442", "#999999")


def new_figure(size: tuple[float, float]) -> Figure:
    """An empty figure of so many inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=size, layout="constrained")


def make_figure(
    title: str, *draws: Callable[[Axes], None], size: tuple[float, float] = (8.0, 5.0), rows: int = 1
) -> Figure:
    """Draws each into axes of its own, side by side in `rows`."""
    figure = new_figure(size)
    panels = figure.subplots(rows, -(-len(draws) // rows), squeeze=False)
    for axes in panels.flat[len(draws) :]:
        axes.remove()
    for draw, axes in zip(draws, panels.flat, strict=False):
        draw(axes)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0, 0].set_title(title, loc="left", fontsize=10)
    return figure


def save_figure(figure: Figure, path: Path | IO[bytes], ending: str = "") -> None:
    """Writes a figure; the ending of `path`, or the one given, chooses the format. Text in an SVG stays text.

    No dates or random ids are inside: the same answer gives the same file. Raises BadInput for an unknown ending.
    """
    from matplotlib import rc_context

    ending = ending or getattr(path, "suffix", "")
    metadata: Json = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(ending, {})
    with rc_context({"svg.hashsalt": "lockstep", "svg.fonttype": "none"}):
        try:
            figure.savefig(path, dpi=150, metadata=metadata, format=ending.removeprefix("."))
        except ValueError as error:
            raise BadInput(f"cannot write the plot: {error}", str(path)) from None


def sizes_on(axis: Axis) -> None:
    """A logarithmic axis of bytes, with powers of two as a person says them."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axis.set_major_locator(LogLocator(base=2, numticks=9))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda size_B, _: format_size(size_B)))


def times_on(axis: Axis) -> None:
    """Seconds on an axis as a person says them."""
    from matplotlib.ticker import FuncFormatter

    axis.set_major_formatter(FuncFormatter(lambda time_s, _: format_time(time_s)))
