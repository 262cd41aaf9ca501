"""Every layout of the search, drawn while it runs: time, memory, the front, why not the others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lockstep.types.plain import Json
from lockstep.verbs.plan import space_of
from lockstep.views.page.space import found_form, head_form, space_messages
from lockstep.web.asked import allowed
from lockstep.web.screen import LAYOUT, QUESTION, RECIPE, Field, Screen, Words

if TYPE_CHECKING:
    from lockstep.hardware import Cluster
    from lockstep.layout import Job
    from lockstep.planner import Space
    from lockstep.web.asked import Asked

QUESTIONS = ("tokens", "samples", "epochs", "objective", "deadline", "top")
"""Words of a plan that do not change what it searches."""


def question(asked: Asked) -> tuple[Job, Cluster, Space]:
    """What is searched. Raises BadInput."""
    words = {name: value for name, value in allowed("plan", asked.words).items() if name not in QUESTIONS}
    found: tuple[Job, Cluster, Space] = asked.call(space_of, "plan", words)
    return found


def sooner(asked: Asked) -> tuple[tuple[Job, Cluster, Space], Words]:
    """What is known before the search."""
    return question(asked), asked.words


def data(found: tuple[Job, Cluster, Space], asked: Asked) -> Json:
    """The question, and how many layouts it is about."""
    job, cluster, space = found
    return {
        "title": f"{job.model.name} on {job.devices} x {cluster.device.name}",
        "size": f"{space.size:,} combinations",
        "form": {"head": head_form(job, cluster)},
    }


def stream(asked: Asked) -> Iterator[Json]:
    """The layouts of each stage count, then what the plan found among them."""
    for message in space_messages(*question(asked)):
        asked.check()
        if "chunk" in message:
            yield message
    yield {"found": found_form(asked.ask("plan"))}


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
