"""`lockstep guide`: the field's rules for choosing a layout, beside the planner's best."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from lockstep.units import format_frac, format_size, format_time
from lockstep.views.estimate import PART_WORDS
from lockstep.views.parts.command import Command
from lockstep.views.parts.layout_columns import layout_words
from lockstep.views.parts.terminal import heading, indented, small_print, table

if TYPE_CHECKING:
    from rich.console import Console

    from lockstep.planner import Estimate
    from lockstep.planner.guide import Difference, Guidance


ASSUMPTIONS = 3


def render(found: Guidance, out: Console) -> None:
    """Prints the guide's answer."""
    title = f"{found.job.model.name} on {found.job.devices} x {found.cluster.device.name}: {layout_words(found.layout)}"
    out.print(Text(title, style="bold green" if found.feasible else "bold red"))
    out.print(_compared(found))
    heading(out, "Rules", "applied in this order, each to the layout so far")
    rows = [(rule.question, Text(finding.answer, style="bold"), finding.because) for rule, finding in found.findings]
    indented(out, table([("question", "left"), ("answer", "left"), ("because", "text")], rows))
    _layouts(found, out)
    if found.differences:
        heading(out, "Planner differences", "change of the step time if you adopt only this setting")
        titles = [("setting", "left"), ("rules", "right"), ("planner", "right"), ("alone", "text")]
        indented(out, table(titles, (_difference(each) for each in found.differences)))
    from lockstep.planner import assumptions

    small_print(out, "Assumptions", assumptions(found.job, found.cluster, found.layout), ASSUMPTIONS)


def _compared(found: Guidance) -> str:
    """One line: how far the rules' layout is from the best."""
    if found.optimum is None:
        return "Neither the rules nor the planner find a layout that runs and fits."
    if found.slower_frac is None:
        return "The rules end at a layout that does not run or fit; the planner finds one that does."
    if found.estimate is not None and found.estimate.layout == found.optimum.layout:
        return "The planner finds the same layout best."
    said = f"{format_frac(found.slower_frac, 2)} slower than the planner's best layout"
    if found.lost is None:
        return said + "."
    part, seconds = found.lost
    return f"{said}; the largest difference is {PART_WORDS[part]} ({format_time(seconds)})."


def _layouts(found: Guidance, out: Console) -> None:
    """The two layouts side by side."""
    named = [("rules", found.estimate), ("planner", found.optimum)]
    rows = [_layout(name, one) for name, one in named if one is not None]
    if rows:
        heading(out, "Layouts")
        titles = [("", "left"), ("layout", "text"), ("step", "right"), ("MFU", "right"), ("memory", "right")]
        indented(out, table(titles, rows))


def _layout(name: str, one: Estimate) -> list[str]:
    held = format_size(float(one.memory.total_B))
    return [name, layout_words(one.layout), format_time(one.step_time_s), format_frac(one.mfu_frac), held]


def _difference(one: Difference) -> list[str]:
    if one.saved_frac is None:
        return [one.word, one.rules, one.optimum, "only in combination; on its own it breaks a rule or does not fit"]
    return [one.word, one.rules, one.optimum, f"{-100 * one.saved_frac:+.1f} %"]


COMMAND = Command(
    examples=(
        "lockstep guide llama3-70b --cluster dgx-h100:64 --batch-tokens 8M",
        "lockstep guide mixtral-8x7b --cluster dgx-a100-80gb:16 --batch 512 --json",
    ),
    more="Each rule states what it decides and why; the planner's best layout is shown next to the result. The exit "
    "code is 1 when the rules do not find a layout that fits.",
    render=render,
    doing="searching layouts",
    ok=lambda answer: answer.feasible,
    figures=("step_time_s", "mfu_frac", "slower_frac"),
)
