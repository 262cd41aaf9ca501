"""The verb that leads from a question to what answers it: `find`."""

from typing import TYPE_CHECKING, Annotated

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json, picked
from lockstep.base.types.shown import Shown
from lockstep.show.verbs.words.calling import strict
from lockstep.show.verbs.words.option import Argument, Option
from lockstep.show.verbs.words.quantity import Quantity
from lockstep.show.verbs.words.question import whole

if TYPE_CHECKING:
    from lockstep.show.verbs.leads.index import Lead

TOP = 8
LEAST = 0.4
"""Share of the best score below which a lead is left out."""


@dataclass(frozen=True, slots=True, repr=False)
class Leads(Shown):
    """What answers a question, the best first."""

    question: str
    leads: "tuple[Lead, ...]"
    scores: tuple[float, ...]
    """Of the leads, comparable within one question only."""

    @property
    def ok(self) -> bool:
        """Whether anything was found."""
        return bool(self.leads)

    def to_dict(self) -> Json:
        """Plain JSON form."""
        found = zip(self.leads, self.scores, strict=True)
        rows = [{**picked(one, "kind name says command"), "score": round(score, 3)} for one, score in found]
        return {"question": self.question, "leads": rows}


@strict
def find(
    *words: Annotated[str, Argument("WORDS", "A question or a few words, with or without quotes.", repeated=True)],
    top: Annotated[Quantity, Option("K", "Most leads to list.", default="8")] = TOP,
) -> Leads:
    """Commands, options, claims, experiments, published runs and pages that answer a question in plain words.

    The answer is computed from their texts, offline: nothing is run. Raises BadInput without words.
    """
    from lockstep.show.verbs.leads.index import KINDS, leads
    from lockstep.show.verbs.leads.ranking import Ranking

    question, most = " ".join(words).strip(), whole(top, "--top", minimum=1)
    if not question:
        raise BadInput("ask a question, or give a few words", "WORDS")
    every = leads()
    scores = Ranking(one.fields() for one in every).scores(question)
    weighed = [(KINDS[one.kind] * score, one) for one, score in zip(every, scores, strict=True) if score]
    weighed.sort(key=lambda one: -one[0])
    best = [one for one in weighed if one[0] >= LEAST * weighed[0][0]][:most]
    return Leads(question, tuple(lead for _, lead in best), tuple(score for score, _ in best))
