"""Every layout of the search, drawn while it runs: time, memory, the front, why not the others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lockstep.base.types.plain import Json
from lockstep.show.verbs.plan import space_of
from lockstep.show.views.page.space import MOST, found_form, head_form, space_messages
from lockstep.show.web.asked import allowed
from lockstep.show.web.screen import LAYOUT, QUESTION, RECIPE, Field, Screen, Words

if TYPE_CHECKING:
    from lockstep.decide.planner.software import Software
    from lockstep.decide.planner.space import Space
    from lockstep.describe.hardware import Cluster
    from lockstep.price.layout import Job
    from lockstep.show.web.asked import Asked

    Searched = tuple[Job, Cluster, Space, Software | None]

QUESTIONS = ("tokens", "samples", "epochs", "objective", "deadline", "top")
"""Words of a plan that do not change what it searches."""


def question(asked: Asked) -> Searched:
    """What is searched. Raises BadInput."""
    if asked.words.get("objective") == "cost" or asked.words.get("deadline"):
        # The plan chooses how many devices there are.
        plan = asked.ask("plan")
        return plan.job, plan.cluster, plan.findings.space, plan.software
    words = {name: value for name, value in allowed("plan", asked.words).items() if name not in QUESTIONS}
    found: Searched = asked.call(space_of, "plan", words)
    return found


def sooner(asked: Asked) -> tuple[Searched, Words]:
    """What is known before the search."""
    return question(asked), asked.words


def data(found: Searched, asked: Asked) -> Json:
    """The question, and how many layouts it is about."""
    job, cluster, space, software = found
    return {
        "title": f"{job.model.name} on {job.devices} x {cluster.device.name}",
        "size": f"{space.size:,} combinations, of which those of {job.devices:,} devices are searched",
        "form": {"head": head_form(job, cluster, software=software)},
    }


def stream(asked: Asked) -> Iterator[Json]:
    """The layouts of each stage count, then what the plan found among them."""
    counts: Json = {}
    for message in space_messages(*question(asked), most=MOST):
        asked.check()
        counts = message.get("counts", counts)
        if "counts" not in message:
            yield message
    yield {"found": found_form(asked.ask("plan")) | counts}


SCREEN = Screen(
    title="Space",
    verb="plan",
    fields=(
        *QUESTION,
        Field("objective", "Goal", "robust time cost", example="robust"),
        Field("software", "For software", "software", group="Recipe", example="any"),
        *RECIPE,
        *LAYOUT,
    ),
    sooner=sooner,
    data=data,
    stream=stream,
    saves="report",
)
