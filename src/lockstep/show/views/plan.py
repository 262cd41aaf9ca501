"""`lockstep plan`: the best layouts, the Pareto front, and why not the others."""

from __future__ import annotations

import sys
import time
from functools import partial
from textwrap import fill
from typing import TYPE_CHECKING

from rich.text import Text

from lockstep.base.documents.files import write_text
from lockstep.base.errors import BadInput
from lockstep.base.units import (
    SECONDS_PER_DAY,
    format_count,
    format_frac,
    format_money,
    format_risk,
    format_size,
    format_time,
)
from lockstep.show.verbs.words.option import Option
from lockstep.show.views.estimate import time_line, unit
from lockstep.show.views.parts import bars
from lockstep.show.views.parts.command import Command
from lockstep.show.views.parts.figure import PALETTE, make_figure, times_on
from lockstep.show.views.parts.layout_columns import layout_words
from lockstep.show.views.parts.layout_table import print_layouts
from lockstep.show.views.parts.options import flags
from lockstep.show.views.parts.output import draw, given, picture_path, show
from lockstep.show.views.parts.progress import progress
from lockstep.show.views.parts.reading import BINDS, PART_WORDS, left_out, mfu_column, notes
from lockstep.show.views.parts.terminal import heading, indented, paragraph, small_print, table, table_width

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import Console

    from lockstep.base.types.plain import Json
    from lockstep.decide.planner.choices import Choice
    from lockstep.decide.planner.estimate import Estimate
    from lockstep.decide.planner.result import Plan


FRONT_ROWS = 5
FRONT_STEP = 0.85
"""A row of the front is worth its line when it needs at most this share of the memory of the row above."""

FRONT_SLOWEST = 2.5
"""Layouts slower than this many times the best are left to --json."""

REASONS = 5
ASSUMPTIONS = 5


def render(plan: Plan, out: Console) -> None:
    """Prints the plan."""
    verdict(plan, out)
    _choices(plan, out)
    _best(plan, out)
    _front(plan, out)
    _why_not(plan, out)
    small_print(out, "Assumptions", plan.best.assumptions(), ASSUMPTIONS)


def verdict(plan: Plan, out: Console) -> None:
    """Which layout, how fast, how full, how long and how much."""
    best, job = plan.best, plan.job
    title = f"{job.model.name} on {job.devices} x {plan.cluster.device.name}: {layout_words(best.layout)}"
    out.print(Text(title, style="bold green"))
    paragraph(
        out,
        f"{format_time(best.step_time_s)} per step of {format_count(job.step_units)} {unit(job)} "
        f"({best.accumulation}), {best.said_interval}; "
        f"{format_count(best.tokens_per_s)} {unit(job)}/s, {best.utilisation}; "
        f"{_memory(best)} of {format_size(best.memory.capacity_B)} per device, risk of running out "
        f"{format_risk(float(best.memory.out_of_memory_frac))}; "
        f"bound by {BINDS[best.bound_by]}.",
    )
    if plan.aim is not None:
        days, dollars = best.campaign(plan.aim)
        cost = "an unknown price" if dollars is None else format_money(dollars)
        lasts = format_time(days * SECONDS_PER_DAY)
        said = f"{plan.said_aim} take {lasts} without interruptions and cost {cost}."
        paragraph(out, said)
    for remark in remarks(plan):
        paragraph(out, remark)
    left_out(job, out)
    if plan.software is not None:
        timed = f"timed as {best.job.recipe.software.name}; --export FILE writes its configuration."
        paragraph(out, f"Limited to what {plan.software.version} can run, {timed}")
    if not plan.findings.complete:
        out.print(Text("Stopped early: the best of what was searched, perhaps not the best of all.", style="yellow"))
    time_line(best, out)


def remarks(plan: Plan) -> list[str]:
    """Sentences on the choice: why it is not the fastest, what frees memory, and better questions close by."""
    said = [None if plan.choice is None else f"it is {plan.choice}", plan.room, *map(str, plan.neighbours)]
    return [f"{one[0].upper()}{one[1:]}." for one in said if one]


def _choices(plan: Plan, out: Console) -> None:
    """The best layout with each of several recipes."""
    if not plan.choices:
        return
    fitting = [(one, one.utilisation) for one in plan.choices if one.utilisation is not None]
    note, cells = mfu_column([used for _, used in fitting])
    rows = [_choice(one, mfu) for (one, _), mfu in zip(fitting, cells, strict=True)]
    rows += [(one.words, f"none: {one.why_not}", "-", "-", "-") for one in plan.choices if one.utilisation is None]
    said = notes("the best layout of each; the first is shown below", note)
    heading(out, "Recipes", said)
    titles = [("recipe", "text"), ("layout", "text"), ("step", "right"), ("MFU", "right"), ("memory", "right")]
    made = table(titles, rows)
    if out.measure(made).maximum <= out.width - 2:
        indented(out, made)
        return
    indented(out, table([titles[0], *titles[2:]], ([row[0], *row[2:]] for row in rows)))
    indented(out, table(titles[:2], (row[:2] for row in rows)))


def _choice(one: Choice, mfu: str) -> tuple[str, ...]:
    return one.words, str(one.layout), format_time(one.step_time_s or 0.0), mfu, format_size(one.memory_B or 0.0)


def _memory(one: Estimate) -> str:
    return format_size(float(one.memory.total_B))


def _best(plan: Plan, out: Console) -> None:
    """The best layouts, side by side."""
    order = {"cost": "cheapest", "robust": "robust choice first"}.get(plan.objective, "fastest")
    run = f", of those that {plan.software.name} can run" if plan.software else ""
    heading(out, "Best layouts", f"{order} of {plan.findings.feasible:,} that fit{run}{_note(plan)}")
    print_layouts(plan.plans, plan.aim, out)


def _note(plan: Plan) -> str:
    """What the MFU of a table of layouts counts, where that matters."""
    note, _ = mfu_column([one.utilisation for one in plan.plans])
    return note and f"; {note}"


def _front(plan: Plan, out: Console) -> None:
    """What less memory costs in time and money."""
    rows = readable_front(plan.front)
    if len(rows) < 2:
        return
    note = f"{len(rows)} of {len(plan.front)}" if len(rows) < len(plan.front) else ""
    heading(out, "Pareto front: less memory for more time and money", note)
    print_layouts(rows, plan.aim, out)


def readable_front(front: Sequence[Estimate]) -> list[Estimate]:
    """Rows of the front that differ enough to be read, fastest first."""
    rows: list[Estimate] = []
    for one in front:
        if one.step_time_s > FRONT_SLOWEST * front[0].step_time_s or len(rows) == FRONT_ROWS:
            break
        if not rows or float(one.memory.total_B) <= FRONT_STEP * float(rows[-1].memory.total_B):
            rows.append(one)
    return rows


def _why_not(plan: Plan, out: Console) -> None:
    """How many layouts each constraint rejected, and by how little the nearest one missed."""
    rejected = plan.rejected
    note = f"{plan.findings.rejected.total():,} of {plan.findings.considered:,} layouts rejected"
    heading(out, "Why other layouts were rejected", note)
    counts = [(f"{one['count']:,}", one["why"], _nearest(one)) for one in rejected]
    if len(counts) > REASONS:
        rest = rejected[REASONS - 1 :]
        counts[REASONS - 1 :] = [(f"{sum(one['count'] for one in rest):,}", f"{len(rest)} other rules", "")]
    titles = [("count", "right"), ("rejected by", "left"), ("", "left")]
    made = table(titles, counts)
    if table_width(made, 2) <= out.width - 2:
        indented(out, made)
        return
    indented(out, table(titles[:2], (row[:2] for row in counts)))
    for _, why, nearest in counts:
        if nearest:
            paragraph(out, f"{why}  {nearest}", indent=2)


def _nearest(rejected: Json) -> str:
    """The layout that a rule rejected by least, and by how much; empty where nobody knows."""
    found = rejected.get("nearest")
    return f"nearest: {found['layout']}, {format_size(found['excess_B'])} too much" if found else ""


GIB = 2.0**30
NAME_WIDTH = 28


def plot_plan(plan: Plan) -> Figure:
    """The best layouts by part of the step, and the Pareto front."""
    best = plan.best
    title = f"{plan.job.model.name} on {plan.job.devices} x {plan.cluster.device.name}: {format_time(best.step_time_s)}"
    title += f" per step, {format_frac(best.mfu_frac)} {best.utilisation.name}, with {best.layout}"
    return make_figure(title, lambda axes: _parts(plan, axes), lambda axes: _draw_front(plan, axes), size=(13.0, 4.5))


def _parts(plan: Plan, axes: Axes) -> None:
    """A bar per listed layout, best on top, cut into the parts of its step."""
    names = [fill(str(one.layout), NAME_WIDTH) for one in plan.plans]
    bars.steps(axes, names, plan.plans, PART_WORDS, inches=4.3)


def _draw_front(plan: Plan, axes: Axes) -> None:
    """The Pareto front, as far as the table shows it, whose rows are named."""
    near = [one for one in plan.front if one.step_time_s <= FRONT_SLOWEST * plan.front[0].step_time_s]
    axes.plot([_memory_GiB(one) for one in near], [one.step_time_s for one in near], ".", color="#BBBBBB")
    for place, one in enumerate(readable_front(plan.front)):
        at = _memory_GiB(one), one.step_time_s
        axes.plot(*at, "o", color=PALETTE[place % len(PALETTE)], label=str(one.layout))
    capacity = plan.best.memory.capacity_B / GIB
    axes.axvline(capacity, color="#333333", linestyle=":", label=f"memory of the device, {capacity:.3g} GiB")
    axes.set(xlim=(0, 1.03 * capacity), xlabel="memory of the fullest device, GiB", ylabel="step, Pareto front")
    times_on(axes.yaxis)
    axes.legend(fontsize=8, frameon=False, loc="upper right", bbox_to_anchor=(0.98, 1.0))


def _memory_GiB(one: Estimate) -> float:
    return float(one.memory.total_B) / GIB


def ask(as_json: bool, plot: str | None, export: str | None, **words: object) -> None:
    """Says on stderr how long the search took, which is not in the answer, whose bytes are the same every time."""
    from lockstep.show.verbs.plan import plan

    picture_path(plot)
    if export is not None and words.get("software") is None:
        raise BadInput("name the software whose configuration is written, e.g. --for megatron", "--export")
    began = time.perf_counter()
    with progress("searching layouts") as report:
        answer = plan(progress=report, **given(words))
    sys.stderr.write(f"searched {answer.findings.considered:,} layouts in {time.perf_counter() - began:.2f} s\n")
    if words.get("out") is not None:
        sys.stderr.write(f"wrote {words['out']}\n")
    draw(plot, partial(plot_plan, answer))
    if export is not None:
        _write_export(answer, export)
    show(answer, as_json, render)


def _write_export(plan: Plan, path: str) -> None:
    """Writes the best layout as the configuration of the software that the plan is for."""
    from lockstep.show.verbs.export import export

    write_text(path, export(plan).text, "--export")
    sys.stderr.write(f"wrote {path}\n")


COMMAND = Command(
    examples=(
        "lockstep plan llama3-70b --cluster dgx-h100:64 --batch-tokens 4M --tokens 15T --plot plan.png",
        "lockstep plan llama3-70b -c dgx-h100:8 --batch 512 --tp 4,8 --dtype bf16,fp8 --for megatron -o plan.yaml",
        "lockstep plan ./config.json --cluster dgx-a100-80gb:16 --batch 512 --objective cost --json",
    ),
    render=render,
    picture=plot_plan,
    figures=(
        "plans.0.step_time_s",
        "plans.0.tokens_per_s",
        "gpus",
        "plans.0.mfu_frac",
        "plans.0.memory_B",
        "days",
        "cost",
        "plans.0.layout",
        "plans.0.cost_per_token",
        "plans.0.bound_by",
    ),
    also=flags(export=Option("FILE", "With --for, write the best layout as the software's own configuration.")),
    ask=ask,
)
