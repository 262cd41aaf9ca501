"""Papers and sources behind an answer."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack

from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json, picked
from lockstep.base.types.shown import Shown
from lockstep.show.verbs.estimate import best_estimate, refuse_beside
from lockstep.show.verbs.words.calling import strict
from lockstep.show.verbs.words.named import Cluster, Estimate, Layout, Model, Plan
from lockstep.show.verbs.words.shared import CLUSTER, MODEL, LayoutWords

if TYPE_CHECKING:
    from lockstep.decide.planner.citations import Citation


@dataclass(frozen=True, slots=True, repr=False)
class References(Shown):
    """The papers and sources that an answer rests on."""

    citations: "tuple[Citation, ...]"

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return {"citations": [picked(one, "key text bibtex") for one in self.citations]}


@strict
def cite(
    model: Annotated[str | Path | Model | Plan | Estimate | None, MODEL] = None,
    cluster: Annotated[str | Path | Cluster | None, CLUSTER] = None,
    layout: Layout | None = None,
    **words: Unpack[LayoutWords],
) -> References:
    """Papers and sources behind an answer; without one, every paper that an answer can rest on."""
    from lockstep.decide.planner.citations import citations, papers

    if model is None:
        refuse_beside("all papers", cluster, layout, words)
        return References(tuple(paper.citation(key) for key, paper in papers().items()))
    return References(citations(best_estimate(model, cluster, layout, words)))
