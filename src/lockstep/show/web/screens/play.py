"""A schedule, a collective, a bucket size, stragglers, an experiment, a claim: knobs, and the picture of the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockstep.base.errors import BadInput, LockstepError
from lockstep.base.types.plain import Json, picked
from lockstep.show.verbs.claims import Claims
from lockstep.show.verbs.pipeline import PipelineRun
from lockstep.show.views.page.timeline import timeline_form
from lockstep.show.views.parts.claims_plot import plot_claim
from lockstep.show.views.parts.notebook import view_of
from lockstep.show.views.parts.options import verb_function
from lockstep.show.web.parts import timeline_of
from lockstep.show.web.plays import PLAYS, Play, play
from lockstep.show.web.screen import Screen
from lockstep.show.web.sections import sections

if TYPE_CHECKING:
    from lockstep.show.web.asked import Asked


CLAIM = "claim"
"""The word of a play that is given without its name."""


def chosen(asked: Asked) -> Play:
    """What is played."""
    return play(asked.words.get("play", ""))


def words(asked: Asked) -> Json:
    """The words of its verb."""
    return chosen(asked).words(asked.words)


def answer(asked: Asked) -> Any:
    """The answer of its verb."""
    said, one = words(asked), chosen(asked)
    named = {name: value for name, value in said.items() if name != CLAIM}
    return asked.kept(("play", one.verb, repr(said)), lambda: verb_function(one.verb)(*said.get(CLAIM, ()), **named))


def data(found: Any, asked: Asked) -> Json:
    """Knobs, and what the verb says; where it refuses the knobs stay, to turn one of them back."""
    one, timeline = chosen(asked), timeline_of(found)
    refused = isinstance(found, LockstepError)
    blocks = _refusal(found) if refused else sections(view_of(found)[0], found)
    if isinstance(found, PipelineRun):
        # The text timeline is drawn.
        at = next((place for place, block in enumerate(blocks) if block.get("title") == "When"), len(blocks))
        del blocks[at : at + 2]
    return {
        "plays": [{"name": each.name, "title": each.title} for each in PLAYS],
        "play": one.name,
        "title": one.title,
        "about": one.about,
        "knobs": [
            {**picked(knob, "name label values texts slides"), "value": knob.value(asked.words)}
            for knob in one.knobs
        ],
        "form": None if timeline is None else timeline_form(timeline),
        "picture": timeline is None and not refused,
        "blocks": blocks,
    }  # fmt: skip


def _refusal(no: Exception) -> list[Json]:
    """What stands where the answer would."""
    said = no.message if isinstance(no, BadInput) else str(no)
    return [{"kind": "title", "text": "Not possible"}, {"kind": "text", "text": said, "style": ""}]


def picture(found: Any) -> Any:
    """The figure of an answer. Raises BadInput where there is none."""
    if timeline_of(found) is not None:
        raise BadInput("is drawn in the browser", "picture")
    return plot_claim(found) if isinstance(found, Claims) else found.plot()


SCREEN = Screen(
    title="Play",
    verb="pipeline",
    fields=(),
    words=words,
    answer=answer,
    no_is_data=True,
    data=data,
    picture=picture,
    asks=lambda asked: chosen(asked).verb,
)
