"""Mixture of experts: routing with skew, capacity and drops, balancing loss, placement, uneven all-to-all."""

from lockstep.experts import exchange
from lockstep.experts.capacity import capacity, kept
from lockstep.experts.loss import balance_loss, loss_of
from lockstep.experts.moe import Load, MoeLayer, assignments, cross_node_B, experts
from lockstep.experts.placement import PLACEMENTS, place
from lockstep.experts.routing import Routing, popularity, route

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
