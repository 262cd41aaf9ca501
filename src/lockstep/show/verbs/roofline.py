"""Arithmetic per byte of traffic, beside what each level of the network sustains."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack

from lockstep.show.verbs.estimate import read_asked
from lockstep.show.verbs.words.calling import verb
from lockstep.show.verbs.words.named import Cluster, Layout, Model
from lockstep.show.verbs.words.shared import CLUSTER, MODEL, LayoutWords

if TYPE_CHECKING:
    from lockstep.decide.planner.roofline import Roofline


@verb
def roofline(
    model: Annotated[str | Path | Model, MODEL],
    cluster: Annotated[str | Path | Cluster | None, CLUSTER] = None,
    layout: Layout | None = None,
    **words: Unpack[LayoutWords],
) -> "Roofline":
    """Communication roofline: one per level of the cluster that the layout talks over."""
    from lockstep.decide.planner.roofline import roofline as find_roofline

    asked, chosen = read_asked(model, cluster, layout, dict(words))
    return find_roofline(asked.job, asked.cluster, chosen)
