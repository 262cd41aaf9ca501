"""`lockstep case`: published training runs, predicted beside published."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from rich.text import Text

from lockstep.base.units import format_count, format_frac, format_time
from lockstep.check.validation.cases import TOLERANCE_FRAC, Comparison, Row, Survey
from lockstep.check.validation.cases.compare import format_quantity
from lockstep.check.validation.cases.study import CONFIGURATIONS, PLANNED
from lockstep.show.views.parts.command import Command
from lockstep.show.views.parts.figure import PALETTE, make_figure
from lockstep.show.views.parts.layout_columns import layout_words
from lockstep.show.views.parts.reading import left_out, mfu_column, notes
from lockstep.show.views.parts.terminal import heading, indented, small_print, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import Console

    from lockstep.check.validation.cases.predict import Predicted


SENTENCES = 8
_MEANING = {
    "public": "layout, devices and stretches as published",
    "partly public": "what no source states is assumed or chosen by the planner",
    PLANNED: "no layout is published: the best one is used, so a lower bound on the time, not a miss",
}


def render(answer: Survey, out: Console) -> None:
    """Prints one study in full, or several a line each."""
    if len(answer.comparisons) == 1:
        _one(answer.comparisons[0], out)
    else:
        _all(answer, out)


def _all(answer: Survey, out: Console) -> None:
    """A line per study, by how much of the configuration is public."""
    known = [row for name in CONFIGURATIONS[:2] for row in answer.durations(name)]
    within = sum(row.within is True for row in known)
    limit = format_frac(TOLERANCE_FRAC)
    said = f"{within} of {len(known)} runs of known layout and length within {limit}"
    out.print(Text(f"{said}; {'every miss is explained' if answer.ok else 'a miss has no explanation'}", style="bold"))
    for name in CONFIGURATIONS:
        studies = [one for one in answer.comparisons if one.study.configuration == name]
        if studies:
            heading(out, name.capitalize(), _MEANING[name])
            titles = [
                ("case", "left"),
                ("published", "right"),
                ("predicted", "right"),
                ("error", "right"),
                ("", "line"),
            ]
            indented(out, table(titles, (_line(one) for one in studies)))
    if any(one.study.pace for one in answer.comparisons):
        out.print(Text("\n  * takes the speed of its kernels from another run of the same software", style="dim"))
    out.print(Text("\n  lockstep case NAME shows one, with the reason for each miss", style="dim"))


def _line(one: Comparison) -> list[str | Text]:
    """A study in one line, by its most telling row: the whole run where it could be predicted."""
    row = max(
        one.rows, key=lambda row: (row.error_frac is not None, row.duration, row.published.quantity == "gpu_hours")
    )
    return [one.study.name, *_numbers(row), one.study.title + (" *" if one.study.pace else "")]


def _numbers(row: Row) -> list[str | Text]:
    """Published, predicted, error."""
    quantity = row.published.quantity
    published = format_quantity(quantity, row.published.value)
    if row.predicted is None or row.error_frac is None:
        return [published, "unknown", ""]
    return [published, format_quantity(quantity, row.predicted), _error(row)]


def _error(row: Row) -> Text:
    frac = row.error_frac or 0.0
    style = "green" if row.within else "yellow" if row.published.why else "red"
    return Text(f"{100 * frac:+.0f} %", style=style)


def _one(found: Comparison, out: Console) -> None:
    """One study in full."""
    study = found.study
    out.print(Text(study.title, style="bold"))
    out.print(f"Configuration: {study.configuration} ({_MEANING[study.configuration]}).")
    heading(out, "Predicted against published", "error = predicted / published - 1")
    titles = [("quantity", "left"), ("of", "left"), ("published", "right"), ("predicted", "right"), ("error", "right")]
    rows = ([_words(row), row.published.stretch or "the whole run", *_numbers(row)] for row in found.rows)
    indented(out, table(titles, rows))
    misses = [row for row in found.rows if row.published.why]
    if misses:
        heading(out, "Why it misses")
        reasons = itertools.groupby(misses, key=lambda row: row.published.why)
        indented(out, table([("", "left"), ("", "text")], ([_words(next(rows)), why] for why, rows in reasons)))
    stretches = found.prediction.stretches
    last = stretches[-1].estimate
    note, used = mfu_column([one.estimate.utilisation for one in stretches])
    heading(out, "As predicted", notes(study.cluster, f"a step takes {last.said_interval}", note))
    titles = [("stretch", "left"), ("layout", "text"), ("step", "right"), ("MFU", "right"), ("lasts", "right")]
    indented(out, table(titles, (_stretch(one, mfu) for one, mfu in zip(stretches, used, strict=True))))
    left_out(last.job, out)
    if study.unknown:
        small_print(out, "Unknown", study.unknown, SENTENCES)
    if found.assumptions():
        small_print(out, "Assumed", found.assumptions(), SENTENCES)
    small_print(out, "Sources", _sources(found), SENTENCES)


def _words(row: Row) -> str:
    """The quantity, and whether its time holds interruptions."""
    return row.published.quantity + (" with downtime" if row.published.downtime else "")


def _stretch(one: Predicted, mfu: str) -> list[str]:
    lasts = "unknown" if one.work_s is None else format_time(one.work_s)
    gpus = f"{format_count(one.stretch.devices)} devices: {layout_words(one.estimate.layout)}"
    return [one.stretch.name, gpus, format_time(one.step_time_s), mfu, "apart" if one.stretch.apart else lasts]


def _sources(found: Comparison) -> Sequence[str]:
    """Where configuration and numbers come from, each once."""
    return tuple(dict.fromkeys([found.study.source, *(row.published.source for row in found.rows)]))


TIMES = ("step_time_s", "days", "gpu_hours")
"""Quantities in which above 1 is too slow; rates are drawn upside down."""


def plot_cases(found: Survey) -> Figure:
    """A row of dots per study: above 1, more time than was published."""
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

    title = f"{len(studies)} published run{'s' if len(studies) > 1 else ''}; grey: within {format_frac(TOLERANCE_FRAC)}"
    return make_figure(title, draw, size=(8.0, 1.2 + 0.24 * max(4, len(studies))))


def _time_ratio(row: Row) -> float | None:
    """Predicted over published time; None where there is no prediction."""
    if row.predicted is None:
        return None
    ratio = row.predicted / row.published.value
    return ratio if row.published.quantity in TIMES else 1 / ratio


COMMAND = Command(
    examples=("lockstep case --plot cases.png", "lockstep case bloom-176b", "lockstep case deepseek-v3 --json"),
    more="The exit code is 1 when a miss is not explained.",
    render=render,
    picture=plot_cases,
    doing="predicting runs",
    ok=lambda answer: answer.ok,
    lists=False,
)
