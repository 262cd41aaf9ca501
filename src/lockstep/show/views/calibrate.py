"""`lockstep calibrate`: what measured steps say of kernels and links, before and after."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.text import Text

from lockstep.base.units import format_frac, format_time
from lockstep.show.views.parts import bars
from lockstep.show.views.parts.command import Command
from lockstep.show.views.parts.figure import INK, make_figure
from lockstep.show.views.parts.output import draw, given, picture_path, show
from lockstep.show.views.parts.terminal import heading, indented, table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import Console

    from lockstep.check.validation.calibration import Factor
    from lockstep.show.verbs.calibrate import Calibrated

FEW = 12
"""Steps shown; of more, those that are furthest off."""


def render(answer: Calibrated, out: Console) -> None:
    """Prints what was found, and the errors before and after."""
    found = answer.found
    out.print(Text(_title(answer), style="bold green"))
    left = format_frac(found.error_frac, 2)
    out.print(f"Expect an error of {left} on other sizes and layouts of the same software on this cluster.")
    heading(out, "Factors", "times as long as predicted, 95 % interval; links: share of the wire rate")
    titles = [("", "left"), ("value", "right"), ("from", "right"), ("to", "right"), ("steps that tell", "right")]
    indented(out, table(titles, (_factor(one) for one in found.factors)))
    heading(out, "Steps", "predicted / measured - 1")
    titles = [("step", "left"), ("devices", "right"), ("measured", "right"), ("before", "right"), ("after", "right")]
    pairs = sorted(zip(found.errors_before, found.errors_after, strict=True), key=lambda pair: -abs(pair[1].error_frac))
    rows = (
        (one.name, f"{one.devices:,}", format_time(one.measured_s), _signed(one.error_frac), _signed(other.error_frac))
        for one, other in pairs[:FEW]
    )
    indented(out, table(titles, rows))
    if answer.path is not None:
        out.print(f"\nWritten to {answer.path}: give it as --cluster.")


def _factor(one: Factor) -> list[str]:
    return [one.what, f"{one.value:.3f}", *(f"{end:.3f}" for end in one.ci95), str(one.rows)]


def _signed(frac: float) -> str:
    return ("+" if frac > 0 else "") + format_frac(frac, 2)


def _title(answer: Calibrated) -> str:
    found = answer.found
    before, after = (
        format_frac(float(np.median([abs(one.error_frac) for one in errors])), 2)
        for errors in (found.errors_before, found.errors_after)
    )
    factor = f"{found.pace:.3g} times as long as predicted"
    return f"Matrix products take {factor}; median error {before} before, {after} after"


DRAWN = 40


def plot_calibration(answer: Calibrated) -> Figure:
    """The error of every step before and after."""
    found = answer.found
    pairs = list(zip(found.errors_before, found.errors_after, strict=True))[:DRAWN]

    def draw(axes: Axes) -> None:
        for place, (before, after) in enumerate(pairs):
            ends = [100 * before.error_frac, 100 * after.error_frac]
            axes.plot(ends, [place, place], color=bars.GREY, linewidth=1)
            for end, colour, name in zip(ends, (bars.GREY, bars.BLUE), ("before", "after"), strict=True):
                axes.plot([end], [place], "o", color=colour, markersize=7, label=name if not place else None)
        axes.axvline(0.0, color=INK, linewidth=0.8)
        bars.rows(axes, [f"{one.name}, {one.devices:,} devices" for one, _ in pairs])
        axes.set_xlabel("predicted over measured time of a step, minus 1, %")
        axes.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))

    return make_figure(_title(answer), draw, size=(9.0, 1.6 + 0.28 * max(4, len(pairs))))


def ask(as_json: bool, file: Sequence[str] | None, plot: str | None = None, **words: Any) -> None:
    """Hands over the files one by one."""
    from lockstep.show.verbs.calibrate import calibrate

    picture_path(plot)
    answer = calibrate(*(file or ()), **given(words))
    draw(plot, partial(plot_calibration, answer))
    show(answer, as_json, render)


COMMAND = Command(
    examples=(
        "lockstep calibrate -c dgx-h100:64 --case examples/steps-8.yaml --case examples/steps-16.yaml -o mine.yaml",
        "lockstep calibrate nccl-tests.txt -c dgx-h100:64 --case examples/steps-8.yaml --json",
    ),
    render=render,
    picture=plot_calibration,
    lists=False,
    ask=ask,
)
