"""Mixture of experts: routing with skew, capacity and drops, balancing loss, placement, uneven all-to-all."""

from lockstep.parallel.expert import exchange as exchange
from lockstep.parallel.expert.capacity import capacity as capacity
from lockstep.parallel.expert.capacity import kept as kept
from lockstep.parallel.expert.loss import balance_loss as balance_loss
from lockstep.parallel.expert.loss import loss_of as loss_of
from lockstep.parallel.expert.moe import Load as Load
from lockstep.parallel.expert.moe import MoeLayer as MoeLayer
from lockstep.parallel.expert.moe import assignments as assignments
from lockstep.parallel.expert.moe import experts as experts
from lockstep.parallel.expert.placement import PLACEMENTS as PLACEMENTS
from lockstep.parallel.expert.placement import place as place
from lockstep.parallel.expert.routing import Routing as Routing
from lockstep.parallel.expert.routing import popularity as popularity
from lockstep.parallel.expert.routing import route as route
