"""`lockstep crossover`: the sizes at which the fastest algorithm of a collective changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from rich.text import Text

from lockstep.base.units import format_size
from lockstep.show.views.parts import bars
from lockstep.show.views.parts.command import Command
from lockstep.show.views.parts.figure import PALETTE, make_figure, sizes_on
from lockstep.show.views.parts.output import draw, show
from lockstep.show.views.parts.terminal import heading, indented, table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import Console

    from lockstep.simulate.collectives import BestMap, Crossover


def render(found: Crossover, out: Console) -> None:
    """Prints the regions."""
    out.print(Text(_title(found), style="bold"))
    out.print(f"{found.op} on {found.ranks} ranks; n* = latency x bandwidth = {format_size(found.n_star_B)}")
    heading(out, "Regions")
    rows = [
        (
            format_size(region.from_B),
            "no end" if region.to_B is None else format_size(region.to_B),
            "" if region.to_B is None else f"{region.to_B:,.1f} B",
            region.best,
        )
        for region in found.regions
    ]
    indented(out, table([("from", "right"), ("to", "right"), ("exactly", "right"), ("fastest", "left")], rows))


def _title(found: Crossover) -> str:
    if found.crossover_B is None:
        return f"{found.regions[0].best} is the fastest at every size"
    first, second = found.regions[0].best, found.regions[1].best
    return f"{first} up to {format_size(found.crossover_B)}, then {second}"


def plot_map(found: BestMap) -> Figure:
    """The map."""
    names = sorted(set(found.algorithm.ravel().tolist()))
    number = np.searchsorted(names, found.algorithm)

    def draw(axes: Axes) -> None:
        from matplotlib.colors import ListedColormap
        from matplotlib.patches import Patch

        colours = [PALETTE[i % len(PALETTE)] for i in range(len(names))]
        axes.imshow(
            number, origin="lower", aspect="auto", cmap=ListedColormap(colours), vmin=-0.5, vmax=len(names) - 0.5
        )
        every = range(0, len(found.sizes_B), 4)
        axes.set_xticks(list(every), [format_size(found.sizes_B[i]) for i in every])
        axes.set_yticks(range(len(found.ranks)), [str(ranks) for ranks in found.ranks])
        axes.set(xlabel="size", ylabel="ranks")
        handles = [Patch(color=colour, label=name) for colour, name in zip(colours, names, strict=True)]
        axes.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8, frameon=False)

    return make_figure(f"Fastest algorithm of {found.op}", draw, size=(9.0, 4.5))


SHOWN_BEYOND = 64.0
"""The picture goes this many times beyond the first and last tie."""


def plot_regions(found: Crossover) -> Figure:
    """Which algorithm is fastest at which size, on one group of ranks."""
    ties_B = [region.to_B for region in found.regions if region.to_B is not None] or [found.n_star_B]
    low, high = max(1.0, min(ties_B) / SHOWN_BEYOND), max(ties_B) * SHOWN_BEYOND
    names = list(dict.fromkeys(region.best for region in found.regions))

    def draw(axes: Axes) -> None:
        for region in found.regions:
            begin, end = max(low, region.from_B), high if region.to_B is None else min(high, region.to_B)
            row, colour = names.index(region.best), PALETTE[names.index(region.best) % len(PALETTE)]
            axes.barh(row, end - begin, left=begin, color=colour, height=bars.HEIGHT)
            if region.to_B is not None:
                axes.text(end, row, f" {format_size(region.to_B)}", va="center", fontsize=8)
        bars.rows(axes, names)
        axes.set(
            xscale="log", xlim=(low, high), xlabel="size at which it is the fastest; in the picture: where it ends"
        )
        sizes_on(axes.xaxis)

    return make_figure(_title(found), draw, size=(9.0, 1.6 + 0.34 * max(3, len(names))))


def ask(as_json: bool, plot: str | None, **words: Any) -> None:
    """Draws another answer than it prints: the best algorithm at all group sizes."""
    from lockstep.show.verbs.crossover import best_algorithms, crossover

    answer = crossover(**words)
    draw(plot, lambda: plot_map(best_algorithms(**words)))
    show(answer, as_json, render)


COMMAND = Command(
    examples=(
        "lockstep crossover all-reduce --ranks 256 --latency 10us --bandwidth 25GB/s --between ring,tree",
        "lockstep crossover all-reduce --ranks 512 --latency 5us --bandwidth 50GB/s --plot map.png",
    ),
    more="The picture maps all group sizes.",
    render=render,
    picture=plot_map,
    figures=("crossover_B", "n_star_B"),
    ask=ask,
)
