"""`Advice`: what the step time of a layout follows, and which upgrades would shorten it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lockstep.planner import Estimate

if TYPE_CHECKING:
    from lockstep.planner.sensitivity import Sensitivity
    from lockstep.planner.upgrades import Upgrades


@dataclass(frozen=True, slots=True)
class Advice:
    """Sensitivity and upgrades of one layout."""

    estimate: Estimate
    sensitivity: Sensitivity
    upgrades: Upgrades

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form in the words of the command line."""
        return self.upgrades.to_dict() | self.sensitivity.to_dict()


def advise(found: Estimate) -> Advice:
    """The advice for an estimated layout."""
    from lockstep.planner.replans import Replans
    from lockstep.planner.sensitivity import sensitivity
    from lockstep.planner.upgrades import upgrades

    replans = Replans(found.job.model, found.job.recipe)
    follows = sensitivity(found.job, found.cluster, found.layout, replans=replans)
    return Advice(found, follows, upgrades(found, replans=replans))
