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

CONVERSIONS = ("to fp32", "to half")
"""Steps of a loss that change the format of its logits alone, each a kernel."""


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
    """The same in a given way. Ways that convert logits count passes over fp32 as two, so that logits which are fp32
    from the start take the same passes without the conversions.
    """
    sides = chosen.forward, chosen.backward
    kept = [tuple(one for one in side if one.what not in CONVERSIONS) for side in sides]
    left = [len(side) - len(those) for side, those in zip(sides, kept, strict=True)]
    if clock.element_B < FP32_B or not any(left):
        return way_work(clock, chosen, logits)
    there, back = (count - fewer for count, fewer in zip(chosen.kernels, left, strict=True))
    wide = replace(chosen, forward=kept[0], backward=kept[1], kernels=(there, back))
    return way_work(replace(clock, element_B=FP32_B / 2), wide, logits)
