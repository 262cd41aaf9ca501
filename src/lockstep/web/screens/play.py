"""A schedule, a collective, a bucket size, stragglers, an experiment, a claim: knobs, and the picture of the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockstep.errors import BadInput
from lockstep.types.plain import Json
from lockstep.verbs.pipeline import PipelineRun
from lockstep.views.page.timeline import timeline_form
from lockstep.views.parts.claims_plot import plot_claim
from lockstep.views.parts.notebook import render_of
from lockstep.views.parts.options import verb_function
from lockstep.web.plays import PLAYS, Play, play
from lockstep.web.screen import Screen
from lockstep.web.sections import sections

if TYPE_CHECKING:
    from lockstep.web.asked import Asked


def chosen(asked: Asked) -> Play:
    """What is played."""
    return play(asked.words.get("play", ""))


def words(asked: Asked) -> Json:
    """The words of its verb."""
    return chosen(asked).words(asked.words)


def answer(asked: Asked) -> Any:
    """The answer of its verb."""
    said, one = words(asked), chosen(asked)
    return asked.kept(("play", one.verb, repr(said)), lambda: verb_function(one.verb)(**said))


def data(found: Any, asked: Asked) -> Json:
    """Knobs, and what the verb says."""
    one = chosen(asked)
    return {
        "plays": [{"name": each.name, "title": each.title} for each in PLAYS],
        "play": one.name,
        "title": one.title,
        "about": one.about,
        "knobs": [
            {"name": knob.name, "label": knob.label, "values": knob.values, "value": knob.value(asked.words), "slides": knob.slides}
            for knob in one.knobs
        ],
        "form": timeline_form(found.timeline) if isinstance(found, PipelineRun) else None,
        "blocks": sections(render_of(found), found),
    }  # fmt: skip


def picture(found: Any) -> Any:
    """The figure of an answer. Raises BadInput where there is none."""
    if hasattr(found, "facts"):
        return plot_claim(found)
    if isinstance(found, PipelineRun):
        raise BadInput("is drawn in the browser", "picture")
    return found.plot()


SCREEN = Screen(
    title="Play",
    verb="pipeline",
    fields=(),
    words=words,
    answer=answer,
    data=data,
    picture=picture,
    asks=lambda asked: chosen(asked).verb,
)
