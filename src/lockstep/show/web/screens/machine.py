"""One step over the machine: the layout on nodes and devices, and what each of them does at a moment of the step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.base.types.plain import Json
from lockstep.base.units import format_time
from lockstep.show.views.page.machine import machine_form, note
from lockstep.show.views.parts.machine import MOMENT, plot_machine
from lockstep.show.web.parts import headed, step_figures, with_best
from lockstep.show.web.screen import LAYOUT, QUESTION, RECIPE, Screen

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.figure import Figure

    from lockstep.decide.planner.estimate import Estimate
    from lockstep.show.web.asked import Asked


def data(one: Estimate, asked: Asked) -> Json:
    """The machine, and the simulated step on it."""
    headline = f"One step of {format_time(one.step_time_s)} on {one.job.devices:,} devices"
    return {
        **headed(one, headline),
        "figures": step_figures(one),
        "note": note(one),
        "moment": MOMENT,
        "form": machine_form(one),
    }


def picture(asked: Asked) -> Callable[[Estimate], Figure]:
    """The moment that an address names."""
    moment = asked.words.get("moment") or MOMENT
    return lambda one: plot_machine(one, moment, "moment")


SCREEN = Screen(
    title="Machine",
    verb="estimate",
    fields=(*QUESTION, *LAYOUT, *RECIPE),
    words=with_best,
    data=data,
    picture_at=picture,
)
