"""The fastest algorithm as a map: size to the right, ranks upwards, one colour per algorithm."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lockstep.collectives import BestMap
from lockstep.report.figure import write_figure
from lockstep.report.timeline_plot import PALETTE
from lockstep.units import format_size

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_map(found: BestMap, path: Path) -> None:
    """Writes the map."""
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

    write_figure(path, f"Fastest algorithm of {found.op}", draw, size=(9.0, 4.5))
