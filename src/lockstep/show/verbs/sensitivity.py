"""What the step time of a layout follows, and which upgrades would shorten it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack

from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json
from lockstep.base.types.shown import Shown
from lockstep.show.verbs.estimate import estimate
from lockstep.show.verbs.words.calling import verb
from lockstep.show.verbs.words.named import Cluster, Layout, Model
from lockstep.show.verbs.words.shared import CLUSTER, MODEL, LayoutWords

if TYPE_CHECKING:
    from lockstep.decide.planner.estimate import Estimate
    from lockstep.decide.planner.sensitivity import Sensitivity
    from lockstep.decide.planner.upgrades import Upgrades


@verb
def sensitivity(
    model: Annotated[str | Path | Model, MODEL],
    cluster: Annotated[str | Path | Cluster | None, CLUSTER] = None,
    layout: Layout | None = None,
    **words: Unpack[LayoutWords],
) -> "Advice":
    """How the step time follows each number of hardware and layout, and which upgrades save most."""
    return advise(estimate(model, cluster, layout, **words))


@dataclass(frozen=True, slots=True, repr=False)
class Advice(Shown):
    """Sensitivity and upgrades of one layout."""

    estimate: "Estimate"
    sensitivity: "Sensitivity"
    upgrades: "Upgrades"

    def to_dict(self) -> Json:
        """Plain JSON form in the words of the command line."""
        from lockstep.decide.planner.uncounted import not_counted

        found = self.upgrades.to_dict() | self.sensitivity.to_dict()
        left_out = list(not_counted(self.estimate.job))
        return found | {"not_counted": left_out, "assumptions": list(self.estimate.assumptions())}


def advise(found: "Estimate") -> Advice:
    """The advice for an estimated layout."""
    from lockstep.decide.planner.replans import Replans
    from lockstep.decide.planner.sensitivity import sensitivity
    from lockstep.decide.planner.upgrades import upgrades

    replans = Replans(found.job.model, found.job.recipe)
    follows = sensitivity(found.job, found.cluster, found.layout, replans=replans)
    return Advice(found, follows, upgrades(found, replans=replans))
