"""The house style of pictures: one figure, quiet axes, the same file for the same answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.units import format_size, format_time

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

    from lockstep.types.plain import Json

PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#F0E442", "#999999")


def write_figure(
    path: Path, title: str, *draws: Callable[[Axes], None], size: tuple[float, float] = (8.0, 5.0), rows: int = 1
) -> None:
    """Draws each into axes of its own, side by side in `rows`; the ending of `path` chooses the format."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    # No dates or random ids inside: the same answer gives the same file.
    matplotlib.rcParams["svg.hashsalt"] = "lockstep"
    metadata: Json = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix, {})
    figure, panels = pyplot.subplots(rows, -(-len(draws) // rows), figsize=size, layout="constrained", squeeze=False)
    try:
        for axes in panels.flat[len(draws) :]:
            axes.remove()
        for draw, axes in zip(draws, panels.flat, strict=False):
            draw(axes)
            axes.spines[["top", "right"]].set_visible(False)
        panels[0, 0].set_title(title, loc="left", fontsize=10)
        figure.savefig(path, dpi=150, metadata=metadata)
    finally:
        pyplot.close(figure)


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
