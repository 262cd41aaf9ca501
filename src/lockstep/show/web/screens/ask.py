"""The first screen: the best layout for a question, its numbers, and its alternatives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.base.types.plain import Json
from lockstep.base.units import format_time
from lockstep.show.views import plan as view
from lockstep.show.views.parts.layout_columns import layout_words as in_words
from lockstep.show.web.parts import linked, memory_bar, run_words, step_figures, step_parts
from lockstep.show.web.screen import QUESTION, RECIPE, Field, Screen
from lockstep.show.web.sections import found, sections

if TYPE_CHECKING:
    from lockstep.decide.planner.result import Plan
    from lockstep.show.web.asked import Asked


def data(plan: Plan, asked: Asked) -> Json:
    """The verdict in figures, and the tables of `lockstep plan`."""
    best = plan.best
    blocks = sections(view.render, plan)
    linked(found(blocks, "Best layouts"), (run_words(plan, one.layout) for one in plan.plans))
    front = next((one for one in blocks if str(one.get("title")).startswith("Pareto front")), None)
    linked(front, (run_words(plan, one.layout) for one in view.readable_front(plan.front)))
    return {
        "title": f"{plan.job.model.name} on {plan.job.devices} x {plan.cluster.device.name}",
        "headline": f"{format_time(best.step_time_s)} per step with {in_words(best.layout)}",
        "words": run_words(plan, best.layout),
        "remarks": view.remarks(plan),
        "figures": step_figures(best, plan.aim, plan.said_aim),
        "memory": memory_bar(best.memory),
        "parts": step_parts(best),
        "blocks": [one for one in blocks if one["kind"] in ("table", "list")],
    }


SCREEN = Screen(
    title="Ask",
    verb="plan",
    fields=(
        *QUESTION,
        Field("tokens", "Tokens to train on", instead="samples", example="15T"),
        Field("samples", "Samples, instead of tokens", instead="tokens", group="Data set", example="50k"),
        Field("epochs", "Passes over them", group="Data set", example="3"),
        Field("sample_tokens", "Tokens of a sample, packed", group="Data set", example="400"),
        Field("objective", "Goal", "robust time cost", example="robust"),
        Field("software", "For software", "software", group="Recipe", example="any"),
        *RECIPE,
    ),
    data=data,
    saves="report",
)
