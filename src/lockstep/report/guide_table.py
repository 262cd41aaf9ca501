"""The decision guide for a person: verdict, each rule's answer with its numbers, then where the planner disagrees."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from lockstep.planner import Estimate, assumptions
from lockstep.planner.guide import Difference, Guidance
from lockstep.report.estimate_table import PART_WORDS
from lockstep.report.layout_columns import layout_words
from lockstep.report.terminal import heading, indented, small_print, table
from lockstep.units import format_frac, format_size, format_time

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
