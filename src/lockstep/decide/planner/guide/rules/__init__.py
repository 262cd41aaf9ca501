"""The rules of the guide, one file each, in the order in which they are asked."""

from lockstep.decide.planner.guide.draft import Rule
from lockstep.decide.planner.guide.rules import (
    batch,
    bubble,
    context,
    experts,
    micro_batch,
    network,
    node,
    one_device,
    recompute,
    sharding,
    width,
)

RULES: tuple[Rule, ...] = (
    one_device.RULE,
    batch.RULE,
    experts.RULE,
    width.RULE,
    node.RULE,
    context.RULE,
    sharding.RULE,
    recompute.RULE,
    micro_batch.RULE,
    network.RULE,
    bubble.RULE,
)
