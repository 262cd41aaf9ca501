"""Published runs as a picture: predicted over published for every study, by how much of its configuration is public."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.cases import TOLERANCE_FRAC, Row, Survey
from lockstep.cases.study import CONFIGURATIONS
from lockstep.report.figure import write_figure
from lockstep.report.timeline_plot import PALETTE
from lockstep.units import format_frac

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TIMES = ("step_time_s", "days", "gpu_hours")
"""Quantities in which above 1 is too slow; rates are drawn upside down."""


def plot_cases(found: Survey, path: Path) -> None:
    """Writes a row of dots per study: above 1, more time than was published."""
    order = {name: place for place, name in enumerate(CONFIGURATIONS)}
    studies = sorted(found.comparisons, key=lambda one: (-order[one.study.configuration], one.study.name))

    def draw(axes: Axes) -> None:
        axes.axvspan(1 - TOLERANCE_FRAC, 1 + TOLERANCE_FRAC, color="#eeeeee", zorder=0)
        axes.axvline(1.0, color="#333333", linewidth=1)
        for name in CONFIGURATIONS:
            dots = [
                (ratio, place)
                for place, one in enumerate(studies)
                if one.study.configuration == name
                for row in one.rows
                if (ratio := _time_ratio(row)) is not None
            ]
            if dots:
                ratios, places = zip(*dots, strict=True)
                axes.scatter(ratios, places, s=22, color=PALETTE[order[name]], label=name, zorder=2)
        axes.set_yticks(range(len(studies)), [one.study.name for one in studies], fontsize=8)
        axes.set_xlabel("predicted time / published time (rates: their inverse)")
        axes.legend(fontsize=8, frameon=False, loc="lower right")

    title = f"{len(studies)} published runs; grey: within {format_frac(TOLERANCE_FRAC)}"
    write_figure(path, title, draw, size=(8.0, 1.2 + 0.24 * max(4, len(studies))))


def _time_ratio(row: Row) -> float | None:
    """Predicted over published time; None where there is no prediction."""
    if row.predicted is None:
        return None
    ratio = row.predicted / row.published.value
    return ratio if row.published.quantity in TIMES else 1 / ratio
