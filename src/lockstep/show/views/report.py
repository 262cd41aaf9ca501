"""`lockstep report`: a plan, and what the other verbs say of its best layout, as one document."""

from __future__ import annotations

import shlex
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from lockstep.base.errors import BadInput
from lockstep.base.units import format_frac, format_time
from lockstep.show.verbs.capture import CapturedMemory
from lockstep.show.views import capture, cite, estimate, memory, plan, sensitivity
from lockstep.show.views.page.space import MOST_B, space_form
from lockstep.show.views.page.timeline import MOST_IN_FILE, timeline_form
from lockstep.show.views.parts import nearest, ranks
from lockstep.show.views.parts.command import Command
from lockstep.show.views.parts.groups import plot_groups
from lockstep.show.views.parts.output import given, print_json
from lockstep.show.views.parts.page import WANTED, page
from lockstep.show.views.parts.terminal import chapter, console, heading, indented, interactive, table

if TYPE_CHECKING:
    from rich.console import Console

    from lockstep.decide.planner.estimate import Estimate
    from lockstep.decide.planner.result import Plan
    from lockstep.show.verbs.report import RunReport

MOST_DRAWN = 20_000
"""Operations of a timeline of which a file has a picture too."""


def render(found: RunReport | CapturedMemory, out: Console) -> None:
    """Prints every part; on a page with its pictures."""
    draws = getattr(out, "picture", None)
    if isinstance(found, CapturedMemory):
        capture.render(found, out)
        if draws:
            draws(capture.plot_capture(found))
        return
    best = found.plan.best
    plan.render(found.plan, out)
    if draws:
        draws(plan.plot_plan(found.plan))
    chapter(out, "Step")
    estimate.render(best, out)
    chapter(out, "Memory")
    memory.render(found.memory, out)
    chapter(out, "Ranks")
    _ranks(best, out)
    chapter(out, "Timeline")
    _timeline(best, out)
    chapter(out, "Every layout")
    _space(found.plan, out)
    chapter(out, "What if")
    sensitivity.render(found.advice, out)
    chapter(out, "Trust")
    _trust(found, out)
    chapter(out, "Sources")
    cite.render(found.references, out)


def _ranks(best: Estimate, out: Console) -> None:
    """Which ranks work together, and which lies where."""
    if best.job.devices == 1:
        out.print("One rank works alone.")
        return
    if draws := getattr(out, "picture", None):
        draws(plot_groups(best))
    heading(out, ranks.TITLE, ranks.note(best))
    indented(out, table(ranks.titles(best), ranks.rows(best)))


def _timeline(best: Estimate, out: Console) -> None:
    """One step, in lanes."""
    try:
        timeline = best.timeline()
    except BadInput as why:
        out.print(f"{why.message[0].upper()}{why.message[1:]}.")
        return
    out.print(
        f"One step of {format_time(timeline.makespan_s)} on {best.layout.pp} pipeline "
        f"stage{'s' if best.layout.pp > 1 else ''}, each the same on {best.job.devices // best.layout.pp:,} devices. "
        f"`lockstep estimate --trace` writes it for Perfetto."
    )
    if len(timeline.program) > MOST_IN_FILE:
        out.print(
            f"Of its {len(timeline.program):,} operations the file has {MOST_IN_FILE:,} or fewer, of the first stages."
        )
    if (draws := getattr(out, "picture", None)) and len(timeline.program) <= MOST_DRAWN:
        draws(estimate.plot_step(best))
    devices, capacity_B = [best.job.devices // best.layout.pp] * best.layout.pp, best.memory.capacity_B
    form = partial(timeline_form, timeline, stands_for=devices, capacity_B=capacity_B, most=MOST_IN_FILE)
    interactive(out, "timeline", form)


def _space(found: Plan, out: Console) -> None:
    """What the search chose from."""
    findings = found.findings
    out.print(
        f"{findings.feasible:,} of {findings.considered:,} layouts keep the rules and fit; "
        f"{len(findings.front):,} are on the Pareto front of step time and memory."
    )
    interactive(out, "space", partial(space_form, found, most_B=MOST_B))


def _trust(found: RunReport, out: Console) -> None:
    """The interval, the published steps most like the run, and what is published of the device."""
    best = found.plan.best
    out.print(f"A step of {format_time(best.step_time_s)} is expected to take {best.said_interval}.")
    heading(out, nearest.TITLE, nearest.NOTE)
    indented(out, table(nearest.TITLES, map(nearest.row, found.near)))
    rows = [one for one in found.support.rows if one.rows]
    if not rows:
        out.print("No published step is of this device: times rest on its datasheet and on curves of other devices.")
        return
    heading(out, "Steps of this device", "median error where nothing of the software was fitted to")
    titles = [("software", "left"), ("format", "left"), ("", "left"), ("steps", "right"), ("error", "right")]
    indented(
        out,
        table(
            titles,
            ((one.stack, one.dtype, one.level, f"{one.rows:,}", format_frac(one.error_frac or 0.0)) for one in rows),
        ),
    )


def ask(as_json: bool, **words: Any) -> None:
    """Writes the file, or prints JSON; a person reads the verdict and where the file is."""
    from lockstep.show.verbs.report import report

    file = words.pop("out", None)
    if file is None and WANTED.get() is None and not as_json:
        raise BadInput("give the file for the report, ending in .html", "--out")
    with page(file, "report", words, COMMAND.options("report"), "--out"):
        answer = report(**given(words))
        if (made := WANTED.get()) is not None:
            made.shell += f" --out {shlex.quote(made.path.name)}"
            made.write(answer, render)
            sys.stderr.write(f"wrote {made.path}\n")
    if as_json:
        return print_json(answer.to_dict())
    if isinstance(answer, CapturedMemory):
        return capture.verdict(answer, console())
    plan.verdict(answer.plan, console())


COMMAND = Command(
    examples=(
        "lockstep report llama3-70b -c dgx-h100:64 --batch-tokens 4M --tokens 15T -o report.html",
        "lockstep report llama3-8b -c dgx-h100:2 --batch 64 --for torchtitan -o report.html",
        "lockstep report step.capture -c dgx-h100:4 -o report.html",
    ),
    more="One file with pictures that opens offline, and reads the same without its script.",
    render=render,
    lists=False,
    ask=ask,
)
