"""Mixture of experts: routing with skew, capacity and drops, balancing loss, placement, uneven all-to-all."""

from lockstep.parallel.expert import exchange
from lockstep.parallel.expert.capacity import capacity, kept
from lockstep.parallel.expert.loss import balance_loss, loss_of
from lockstep.parallel.expert.moe import Load, MoeLayer, assignments, cross_node_B, experts
from lockstep.parallel.expert.placement import PLACEMENTS, place
from lockstep.parallel.expert.routing import Routing, popularity, route

__all__ = [
    "PLACEMENTS",
    "Load",
    "MoeLayer",
    "Routing",
    "assignments",
    "balance_loss",
    "capacity",
    "cross_node_B",
    "exchange",
    "experts",
    "kept",
    "loss_of",
    "place",
    "popularity",
    "route",
]
