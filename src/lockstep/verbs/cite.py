"""Papers and sources behind an answer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack

from lockstep.types.plain import Json, picked
from lockstep.types.shown import Shown
from lockstep.verbs.estimate import best_estimate, refuse_beside
from lockstep.verbs.words.calling import strict
from lockstep.verbs.words.shared import CLUSTER, MODEL, LayoutWords

if TYPE_CHECKING:
    from lockstep.hardware import Cluster
    from lockstep.layout import Layout
    from lockstep.planner.citations import Citation
    from lockstep.planner.estimate import Estimate
    from lockstep.planner.result import Plan
    from lockstep.workload import Model


@dataclass(frozen=True, slots=True, repr=False)
class References(Shown):
    """The papers and sources that an answer rests on."""

    citations: tuple[Citation, ...]

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
    from lockstep.planner.citations import citations, papers

    if model is None:
        refuse_beside("all papers", cluster, layout, words)
        return References(tuple(paper.citation(key) for key, paper in papers().items()))
    return References(citations(best_estimate(model, cluster, layout, words)))
