"""The house style of pictures: one figure, quiet axes, the same file for the same answer.

A picture is a function that returns a `Figure`; `save_figure` writes it. No window is opened and no state of pyplot is
touched, whatever backend was chosen.
"""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from textwrap import fill
from typing import IO, TYPE_CHECKING

from lockstep.base.documents.files import replacing
from lockstep.base.errors import BadInput
from lockstep.base.units import format_size, format_time
from lockstep.show.views.parts.svg import finished

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

    from lockstep.base.types.plain import Json

PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#6B4FA0", "#999999")
"""Hues of Okabe and Ito (2008), told apart with every common colour vision; a purple stands for their yellow, which is
too light for white paper. On dark paper each has a brighter form: `svg.py`."""
DPI = 150
LETTERS = 10.5
"""Of a title on an inch of a figure's width."""
MOST_WORDS = 24
"""Names and numbers of a panel that its description repeats."""
ON_BAR = "#00131f"
"""Letters on a bright bar, which is bright on dark paper too."""
INK, QUIET, FAINT = "#333333", "#999999", "#EEEEEE"
"""Lines and marks; what is in the background; areas."""


def new_figure(size: tuple[float, float]) -> Figure:
    """An empty figure of so many inches."""
    from lockstep.show.views.parts.picture import Picture

    return Picture(figsize=size, layout="constrained")


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
    panels[0, 0].set_title(fill(title, int(LETTERS * size[0])), loc="left", fontsize=10)
    return figure


def save_figure(figure: Figure, path: Path | IO[bytes], ending: str = "") -> None:
    """Writes a figure; the ending of `path`, or the one given, chooses the format. Text in an SVG stays text.

    No dates or random ids are inside: the same answer gives the same file. Raises BadInput for an unknown ending.
    """
    ending = ending or getattr(path, "suffix", "")
    if isinstance(path, Path):
        with replacing(path) as file:
            return save_figure(figure, file, ending)
    if ending == ".svg":
        path.write(svg_text(figure).encode("utf-8"))
        return
    title, description = titled(figure), described(figure)
    known: dict[str, Json] = {
        ".pdf": {"CreationDate": None, "Title": title, "Subject": description},
        ".png": {"Title": title, "Description": description},
    }
    try:
        figure.savefig(path, dpi=DPI, metadata=known.get(ending, {}), format=ending.removeprefix("."))
    except ValueError as error:
        raise BadInput(f"cannot write the plot: {error}", "--plot") from None


def svg_text(figure: Figure) -> str:
    """The figure as SVG, with a title, a description and colours for dark paper."""
    from matplotlib import rc_context

    written = BytesIO()
    with rc_context({"svg.hashsalt": "lockstep", "svg.fonttype": "none"}):
        figure.savefig(written, dpi=DPI, metadata={"Date": None}, format="svg")
    return finished(written.getvalue().decode("utf-8"), titled(figure), described(figure))


def is_dark(colour: str) -> bool:
    """Whether white text reads better on it (relative luminance, ITU-R BT.709 weights)."""
    red, green, blue = (int(colour[k : k + 2], 16) for k in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue < 140


def titled(figure: Figure) -> str:
    """The title of a figure: its own, else that of its first panel."""
    return " ".join(figure.get_suptitle().split()) or next(filter(None, map(_title, figure.axes)), "")


def described(figure: Figure) -> str:
    """A figure in words: of each panel its title, axes, names of bars or lines, and what is written next to them."""
    return "; ".join(filter(None, map(_panel, figure.axes)))


def _title(axes: Axes) -> str:
    """The title of a panel in one line."""
    return " ".join(axes.get_title(loc="left").split())


def _panel(axes: Axes) -> str:
    """A panel in words."""
    legend = axes.get_legend()
    shown = " over ".join(filter(None, (axes.get_ylabel(), axes.get_xlabel())))
    names = [one.get_text() for one in axes.get_yticklabels() if any(map(str.isalpha, one.get_text()))]
    lists = {
        "rows": names if not axes.get_ylabel() else [],
        "series": [one.get_text() for one in legend.texts] if legend else [],
        "written in it": [" ".join(one.get_text().split()) for one in axes.texts],
    }
    said = [f"{what}: {', '.join(filter(None, few[:MOST_WORDS]))}" for what, few in lists.items() if any(few)]
    return ". ".join(filter(None, (_title(axes), shown, *said)))


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
