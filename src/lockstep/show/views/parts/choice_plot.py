"""A choice between names as a picture: a cell for each pair, the darker the nearer to the best of its row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.base.rows.columns import shown
from lockstep.show.views.parts.figure import make_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from lockstep.base.rows.choice import Choice

WORST = 2.0
"""Times the best of its row at which a cell has no colour left."""
DARK = 0.6


def plot_choice(found: Choice, title: str) -> Figure:
    """The cells with their figures, the best of each row in bold."""
    import numpy as np

    values = np.array([[np.nan if value is None else value for value in row] for row in found.values])
    best = np.array([min((value for value in row if value is not None), default=np.nan) for row in found.values])
    shade = 1 - (values / best[:, None] - 1) / (WORST - 1)

    def draw(axes: Axes) -> None:
        axes.imshow(np.clip(np.nan_to_num(shade, nan=0.0), 0, 1), cmap="Blues", vmin=0, vmax=1.3, aspect="auto")
        axes.set_xticks(range(len(found.columns)), found.columns, rotation=45, ha="right", fontsize=7)
        axes.set_yticks(range(len(found.rows)), found.rows, fontsize=7)
        for (row, column), value in np.ndenumerate(values):
            if np.isfinite(value):
                axes.text(
                    column, row, shown(found.key, float(value)), ha="center", va="center", fontsize=6,
                    fontweight="bold" if value == best[row] else "normal",
                    color="white" if shade[row, column] > DARK else "black",
                )  # fmt: skip
        axes.tick_params(length=0)

    size = (3.5 + 0.5 * len(found.columns), 2.0 + 0.24 * len(found.rows))
    return make_figure(f"{title}\n{found.label}; best of each row in bold", draw, size=size)
