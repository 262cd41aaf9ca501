"""Pictures of a diagnosis without traces: a number beside its predicted interval, and memory by category."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.base.errors import BadInput
from lockstep.base.units import format_frac, format_size
from lockstep.show.views.parts.diagnosis import plot_parts
from lockstep.show.views.parts.figure import PALETTE, make_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from lockstep.decide.planner.estimate import Estimate
    from lockstep.explain.answer import Held
    from lockstep.explain.diagnosis import Diagnosis
    from lockstep.explain.judge import Judged
    from lockstep.explain.stated import Stated


def say(like: Stated, value: float) -> str:
    """A value of the same quantity as `like`, without what the quantity is called."""
    from lockstep.explain.stated import said

    return said(like.quantity, value).removesuffix(" per step").removesuffix(" MFU").removesuffix(" tokens/s")


def plot_diagnosis(answer: Diagnosis) -> Figure:
    """The measured number and what explains it beside the predicted interval, or memory by category."""
    if answer.seen is not None:
        return plot_parts(answer.seen, answer.beside)
    if answer.judged is not None and answer.predicted is not None:
        return _plot_judged(answer.judged, answer.predicted)
    if answer.memory:
        return _plot_memory(answer.memory[0])
    raise BadInput("there is nothing to draw without a prediction or a snapshot")


AXES = {
    "step_time_s": "time of a step", "tokens_per_s": "tokens per second", "mfu_frac": "MFU",
    "model_flops_per_gpu_per_s": "model FLOPs per second and device",
}  # fmt: skip


def _plot_judged(judged: Judged, found: Estimate) -> Figure:
    """The number, its prediction, and deviations with other fields; one with a factor gives the number by itself."""
    measured, wanted = judged.measured, judged.expected
    low, high = (measured.at(end, found) for end in (found.interval.low, found.interval.high))
    rows = [("predicted", measured.predicted(found), PALETTE[0]), ("measured", measured.value, PALETTE[4])]
    several = [*judged.candidates]
    if wanted is not None and wanted.stated.quantity == measured.quantity:
        rows.append(("expected", wanted.stated.value, PALETTE[2]))
        several += wanted.candidates
    rows += [(one.says, one.value, PALETTE[6]) for one in several if one.factor is None]

    def draw(axes: Axes) -> None:
        from matplotlib.ticker import MaxNLocator

        level = format_frac(found.interval.level_frac)
        axes.axvspan(min(low, high), max(low, high), color="#E5E5E5")
        for place, (_, value, colour) in enumerate(rows):
            axes.plot([value], [place], "o", color=colour)
            axes.annotate(f"  {say(measured, value)}", (value, place), va="center", fontsize=8)
        axes.set_yticks(range(len(rows)), [name for name, *_ in rows], fontsize=8)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.margins(x=0.15)
        axes.set_xlabel(f"{AXES[measured.quantity]}; grey: predicted in {level} of cases")
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.xaxis.set_major_formatter(lambda value, _: say(measured, value))

    return make_figure(f"{measured.said}: {judged.verdict}", draw, size=(8.0, 1.6 + 0.4 * len(rows)))


def _plot_memory(one: Held) -> Figure:
    names = [*one.by_category_B, *(name for name in one.predicted_by_category_B or {} if name not in one.by_category_B)]

    def draw(axes: Axes) -> None:
        sides = [("measured", one.by_category_B, PALETTE[4])]
        if one.predicted_by_category_B is not None:
            sides.append(("predicted", one.predicted_by_category_B, PALETTE[0]))
        for number, (label, sizes, colour) in enumerate(sides):
            places = [place + 0.35 * number for place in range(len(names))]
            axes.barh(places, [sizes.get(name, 0.0) / 2**30 for name in names], 0.35, color=colour, label=label)
        axes.set_yticks(range(len(names)), names)
        axes.invert_yaxis()
        axes.set_xlabel("GiB")
        axes.legend(frameon=False, fontsize=8)

    return make_figure(f"{format_size(one.peak_B)} at the peak", draw, size=(8.0, 1.5 + 0.5 * len(names)))
