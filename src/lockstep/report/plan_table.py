"""A plan for a person: verdict in words, best layouts, Pareto front, why not the others, what is assumed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Console
from rich.text import Text

from lockstep.planner import Estimate, Plan
from lockstep.planner.estimate import SECONDS_PER_DAY
from lockstep.report.estimate_table import PART_WORDS, time_line, unit
from lockstep.report.layout_columns import Column, layout_columns, layout_words
from lockstep.report.terminal import heading, indented, small_print, table
from lockstep.units import format_count, format_frac, format_money, format_size, format_time

FRONT_ROWS = 5
FRONT_STEP = 0.85
"""A row of the front is worth its line when it needs at most this share of the memory of the row above."""
FRONT_SLOWEST = 2.5
"""Layouts slower than this many times the best are left to --json."""
REASONS = 5
ASSUMPTIONS = 5


def render(plan: Plan, out: Console) -> None:
    """Prints the plan."""
    _verdict(plan, out)
    _best(plan, out)
    _front(plan, out)
    _why_not(plan, out)
    small_print(out, "Assumptions", plan.best.assumptions(), ASSUMPTIONS)


def _verdict(plan: Plan, out: Console) -> None:
    """Which layout, how fast, how full, how long and how much."""
    best, job = plan.best, plan.job
    title = f"{job.model.name} on {job.devices} x {plan.cluster.device.name}: {layout_words(best.layout)}"
    out.print(Text(title, style="bold green"))
    spread = format_frac(best.mfu_frac * best.uncertainty_frac, 2)
    out.print(
        f"{format_time(best.step_time_s)} per step of {format_count(job.recipe.batch_tokens)} {unit(job)}, "
        f"{format_count(best.tokens_per_s)} {unit(job)}/s, {format_frac(best.mfu_frac)} {best.mfu_name} ± {spread}; "
        f"{_memory(best)} of {format_size(best.memory.capacity_B)} per device; "
        f"bound by {PART_WORDS[best.step.bound_by]}."
    )
    if plan.tokens is not None:
        days, dollars = best.campaign(plan.tokens)
        cost = "an unknown price" if dollars is None else format_money(dollars)
        lasts = format_time(days * SECONDS_PER_DAY)
        out.print(f"{format_count(plan.tokens)} {unit(job)} take {lasts} without interruptions and cost {cost}.")
    if not plan.findings.complete:
        out.print(Text("Stopped early: the best of what was searched, perhaps not the best of all.", style="yellow"))
    time_line(best, out)


def _memory(one: Estimate) -> str:
    return format_size(float(one.memory.total_B))


def _best(plan: Plan, out: Console) -> None:
    """The best layouts, side by side."""
    cheapest = "cheapest" if plan.objective == "cost" else "fastest"
    heading(out, "Best layouts", f"{cheapest} of {plan.findings.feasible:,} that fit")
    _layouts(plan.plans, plan.tokens, out)


def _front(plan: Plan, out: Console) -> None:
    """What less memory costs in time and money."""
    rows = readable_front(plan.front)
    if len(rows) < 2:
        return
    note = f"{len(rows)} of {len(plan.front)}" if len(rows) < len(plan.front) else ""
    heading(out, "Pareto front: less memory for more time and money", note)
    _layouts(rows, plan.tokens, out)


def readable_front(front: Sequence[Estimate]) -> list[Estimate]:
    """Rows of the front that differ enough to be read, fastest first."""
    rows: list[Estimate] = []
    for one in front:
        if one.step_time_s > FRONT_SLOWEST * front[0].step_time_s or len(rows) == FRONT_ROWS:
            break
        if not rows or float(one.memory.total_B) <= FRONT_STEP * float(rows[-1].memory.total_B):
            rows.append(one)
    return rows


def _layouts(rows: Sequence[Estimate], tokens: float | None, out: Console) -> None:
    """A line for each layout: how it is laid out (in columns where they fit), speed, memory, cost."""
    numbers = [*_NUMBERS, *(_cost(tokens) if rows[0].cost_per_token is not None else ())]
    in_columns = layout_columns([one.layout for one in rows])
    in_words: list[Column] = [("layout", "text", str)]
    for columns in (in_columns, in_words):
        titles = [(title, kind) for title, kind, _ in columns] + [(title, "right") for title, _ in numbers]
        body = ([show(one.layout) for *_, show in columns] + [show(one) for _, show in numbers] for one in rows)
        made = table(titles, body)
        if out.measure(made).maximum <= out.width - 2:
            break
    indented(out, made)


_NUMBERS: list[tuple[str, Callable[[Estimate], str]]] = [
    ("step", lambda one: format_time(one.step_time_s)),
    ("MFU", lambda one: format_frac(one.mfu_frac)),
    ("memory", lambda one: _memory(one)),
]


def _cost(tokens: float | None) -> list[tuple[str, Callable[[Estimate], str]]]:
    """Dollars for all the tokens, or for a million when it is not said how many."""
    if tokens is None:
        return [("$/Mtoken", lambda one: f"{(one.cost_per_token or 0.0) * 1e6:.3g}")]
    return [
        ("time", lambda one: format_time(one.campaign(tokens)[0] * SECONDS_PER_DAY)),
        ("cost", lambda one: format_money(one.campaign(tokens)[1] or 0.0)),
    ]


def _why_not(plan: Plan, out: Console) -> None:
    """How many layouts each constraint rejected, and by how little the nearest one missed."""
    rejected = plan.rejected
    count = sum(one["count"] for one in rejected)
    note = f"{count:,} of {count + plan.findings.feasible:,} layouts rejected"
    heading(out, "Why other layouts were rejected", note)
    rows = []
    for one in rejected:
        nearest = one.get("nearest")
        miss = f"nearest: {nearest['layout']}, {format_size(nearest['excess_B'])} too much" if nearest else ""
        rows.append((f"{one['count']:,}", one["why"], miss))
    if len(rows) > REASONS:
        rest = rejected[REASONS - 1 :]
        rows[REASONS - 1 :] = [(f"{sum(one['count'] for one in rest):,}", f"{len(rest)} other rules", "")]
    indented(out, table([("count", "right"), ("rejected by", "left"), ("", "text")], rows))
