"""Mixture of experts: routing with skew, capacity and drops, balancing loss, placement, uneven all-to-all."""

from lockstep.simulate.parallel.expert import exchange as exchange
from lockstep.simulate.parallel.expert.capacity import capacities as capacities
from lockstep.simulate.parallel.expert.capacity import capacity as capacity
from lockstep.simulate.parallel.expert.capacity import kept as kept
from lockstep.simulate.parallel.expert.loss import balance_loss as balance_loss
from lockstep.simulate.parallel.expert.loss import loss_of as loss_of
from lockstep.simulate.parallel.expert.moe import Load as Load
from lockstep.simulate.parallel.expert.moe import MoeLayer as MoeLayer
from lockstep.simulate.parallel.expert.moe import assignments as assignments
from lockstep.simulate.parallel.expert.moe import experts as experts
from lockstep.simulate.parallel.expert.placement import PLACEMENTS as PLACEMENTS
from lockstep.simulate.parallel.expert.placement import place as place
from lockstep.simulate.parallel.expert.routing import Routing as Routing
from lockstep.simulate.parallel.expert.routing import popularity as popularity
from lockstep.simulate.parallel.expert.routing import route as route
