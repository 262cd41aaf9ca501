"""One step of a layout in lanes: computing, traffic hidden and exposed, memory over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.types.plain import Json
from lockstep.views.page.timeline import timeline_form
from lockstep.views.parts.layout_columns import layout_words as in_words
from lockstep.web.parts import step_figures, with_best
from lockstep.web.screen import LAYOUT, QUESTION, RECIPE, Field, Screen

if TYPE_CHECKING:
    from lockstep.planner import Estimate
    from lockstep.web.asked import Asked

LAYERS = "layers"
MOST_OPERATIONS = 300_000
"""A step of more is drawn pass by pass."""


def data(one: Estimate, asked: Asked) -> Json:
    """The simulated step."""
    stages = one.layout.pp
    timeline = one.timeline(asked.words.get("detail") == LAYERS)
    if len(timeline.program) > MOST_OPERATIONS:
        timeline = one.timeline()
    devices = [one.job.devices // stages] * stages
    return {
        "title": f"{one.job.model.name} on {one.job.devices} x {one.cluster.device.name}",
        "layout": in_words(one.layout),
        "figures": step_figures(one),
        "operations": f"{len(timeline.program):,} operations",
        "form": timeline_form(timeline, stands_for=devices, capacity_B=one.memory.capacity_B),
    }


SCREEN = Screen(
    title="Timeline",
    verb="estimate",
    fields=(*QUESTION, Field("detail", "Detail", f"passes {LAYERS}", example="passes"), *LAYOUT, *RECIPE),
    words=with_best,
    data=data,
)
