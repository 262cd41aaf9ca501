"""The level of a cluster on which a draft's traffic weighs most against its kernels."""

from __future__ import annotations

from lockstep.decide.planner.guide.draft import Draft
from lockstep.decide.planner.roofline import RooflineLevel, roofline


def busiest(draft: Draft) -> RooflineLevel:
    """The busiest level of the network, by the communication roofline of a draft that keeps the rules."""
    found = roofline(draft.job, draft.cluster, draft.layout)
    return max(found.levels[1:], key=lambda level: level.share)
