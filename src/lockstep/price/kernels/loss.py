"""Kernel work of the cross entropy: passes over the logits, by how the software computes it (`Recipe.loss_kind`).

A pass reads or writes every logit of a rank's part once, in units of half-precision elements, so that one over fp32
counts two: `loss` of `describe/stacks/ways.toml`. They are kernels of PyTorch or of a compiler, whatever software the
layers are of.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.records import replace
from lockstep.base.types.arrays import Number
from lockstep.base.types.saved import FP32_B
from lockstep.describe.stacks import Way, find_way
from lockstep.price.kernels.clock import Clock
from lockstep.price.kernels.shard import Passes, Shard
from lockstep.price.kernels.slots import way_work
from lockstep.price.layout.losses import across_ranks


def loss_work(shard: Shard, logits: Number) -> Passes:
    """Work of the cross entropy over so many `logits` of a rank."""
    kind = shard.recipe.loss_kind
    across = across_ranks(kind, shard.recipe.habits.distributed_tensors)
    near, far = (_work(shard.clock, find_way("loss", name), logits) for name in (kind, across))
    if kind == across:
        return near
    split = shard.grid.tp > 1
    return near.when(np.logical_not(split)) + far.when(split)


def _work(clock: Clock, chosen: Way, logits: Number) -> Passes:
    """The same in a given way. Logits that are fp32 already are not converted to it: its other passes, which count two
    in half precision, are over 4 bytes all the same.
    """
    sides = tuple(
        tuple(one for one in side if not one.what.startswith("to ")) for side in (chosen.forward, chosen.backward)
    )
    if clock.element_B < FP32_B or sides == (chosen.forward, chosen.backward):
        return way_work(clock, chosen, logits)
    there, back = (count - 1 for count in chosen.kernels)
    wide = replace(chosen, forward=sides[0], backward=sides[1], kernels=(there, back))
    return way_work(replace(clock, element_B=FP32_B / 2), wide, logits)
