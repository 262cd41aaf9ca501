"""`lockstep guide`: the field's rules for choosing a layout, beside the planner's best."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING

from rich.text import Text

from lockstep.base.errors import BadInput
from lockstep.base.units import format_size, format_slower, format_time
from lockstep.show.views.parts import bars
from lockstep.show.views.parts.command import Command
from lockstep.show.views.parts.figure import make_figure
from lockstep.show.views.parts.layout_columns import layout_words
from lockstep.show.views.parts.reading import PART_WORDS, left_out, mfu_column
from lockstep.show.views.parts.terminal import heading, indented, small_print, table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import Console

    from lockstep.decide.planner.estimate import Estimate
    from lockstep.decide.planner.guide import Difference, Guidance


ASSUMPTIONS = 3
NAME_WIDTH = 24


def render(found: Guidance, out: Console) -> None:
    """Prints the guide's answer."""
    title = f"{found.job.model.name} on {found.job.devices} x {found.cluster.device.name}: {layout_words(found.layout)}"
    out.print(Text(title, style="bold green" if found.feasible else "bold red"))
    out.print(_compared(found))
    left_out(found.job, out)
    heading(out, "Rules", "applied in this order, each to the layout so far")
    rows = [(rule.question, Text(finding.answer, style="bold"), finding.because) for rule, finding in found.findings]
    indented(out, table([("question", "left"), ("answer", "left"), ("because", "text")], rows))
    _layouts(found, out)
    if found.differences:
        heading(out, "Planner differences", "change of the step time if you adopt only this setting")
        titles = [("setting", "left"), ("rules", "right"), ("planner", "right"), ("alone", "text")]
        indented(out, table(titles, (_difference(each) for each in found.differences)))
    from lockstep.decide.planner.assumptions import assumptions

    small_print(out, "Assumptions", assumptions(found.job, found.cluster, found.layout), ASSUMPTIONS)


def _compared(found: Guidance) -> str:
    """One line: how far the rules' layout is from the best."""
    if found.optimum is None:
        return "Neither the rules nor the planner find a layout that runs and fits."
    if found.slower_frac is None:
        return "The rules end at a layout that does not run or fit; the planner finds one that does."
    if found.estimate is not None and found.estimate.layout == found.optimum.layout:
        return "The planner finds the same layout best."
    said = f"{format_slower(found.slower_frac).capitalize()} the planner's best layout"
    if found.lost is None:
        return said + "."
    part, seconds = found.lost
    return f"{said}; the largest difference is {PART_WORDS[part]} ({format_time(seconds)})."


def _layouts(found: Guidance, out: Console) -> None:
    """The two layouts side by side."""
    named = [("rules", found.estimate), ("planner", found.optimum)]
    known = [(name, one) for name, one in named if one is not None]
    note, used = mfu_column([one.utilisation for _, one in known])
    rows = [_layout(name, one, mfu) for (name, one), mfu in zip(known, used, strict=True)]
    if rows:
        heading(out, "Layouts", note)
        titles = [("", "left"), ("layout", "text"), ("step", "right"), ("MFU", "right"), ("memory", "right")]
        indented(out, table(titles, rows))


def _layout(name: str, one: Estimate, mfu: str) -> list[str]:
    held = format_size(float(one.memory.total_B))
    return [name, layout_words(one.layout), format_time(one.step_time_s), mfu, held]


def _difference(one: Difference) -> list[str]:
    if one.saved_frac is None:
        return [one.word, one.rules, one.optimum, "only in combination; on its own it breaks a rule or does not fit"]
    return [one.word, one.rules, one.optimum, f"{-100 * one.saved_frac:+.1f} %"]


def plot_guide(found: Guidance) -> Figure:
    """The steps of both layouts by part, and what each setting would change alone. Raises BadInput where none runs."""
    known = [(name, one) for name, one in (("rules", found.estimate), ("planner", found.optimum)) if one is not None]
    if not known:
        raise BadInput("neither the rules nor the planner find a layout that runs and fits", "--plot")
    alone = [one for one in found.differences if one.saved_frac is not None]

    def steps(axes: Axes) -> None:
        names = [f"{name}\n{fill(str(one.layout), NAME_WIDTH)}" for name, one in known]
        bars.steps(axes, names, [one for _, one in known], PART_WORDS, inches=4.5)

    def settings(axes: Axes) -> None:
        values = [-100 * (one.saved_frac or 0.0) for one in alone]
        names = [f"{one.word}: {one.rules} to {one.optimum}" for one in alone]
        colours = [bars.RED if value > 0 else bars.GREEN for value in values]
        bars.plain(axes, names, values, lambda value: f"{value:+.1f} %", colours=colours)
        axes.set_xlabel("change of the rules' step time with this setting alone, %")

    return make_figure(_compared(found), steps, *([settings] if alone else []), size=(13.0 if alone else 8.0, 3.8))


COMMAND = Command(
    examples=(
        "lockstep guide llama3-70b --cluster dgx-h100:64 --batch-tokens 8M",
        "lockstep guide mixtral-8x7b --cluster dgx-a100-80gb:16 --batch 512 --json",
    ),
    more="Each rule states what it decides and why; the planner's best layout is shown next to the result. The exit "
    "code is 1 when the rules do not find a layout that fits.",
    render=render,
    picture=plot_guide,
    doing="searching layouts",
    ok=lambda answer: answer.feasible,
    figures=("step_time_s", "mfu_frac", "slower_frac"),
)
