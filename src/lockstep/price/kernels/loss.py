"""Kernel work of the cross entropy: passes over the logits, by how the software computes it (`Recipe.loss_kind`).

A pass reads or writes every logit of a rank's part once, in units of half-precision elements, so that one over fp32
counts two: `loss` of `describe/stacks/ways.toml`. They are kernels of PyTorch or of a compiler, whatever software the
layers are of.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.types.arrays import Number
from lockstep.describe.stacks import find_way
from lockstep.price.kernels.shard import Passes, Shard
from lockstep.price.kernels.slots import way_work
from lockstep.price.layout.losses import across_ranks


def loss_work(shard: Shard, logits: Number) -> Passes:
    """Work of the cross entropy over so many `logits` of a rank."""
    kind = shard.recipe.loss_kind
    across = across_ranks(kind, shard.recipe.habits.distributed_tensors)
    near, far = (way_work(shard.clock, find_way("loss", name), logits) for name in (kind, across))
    if kind == across:
        return near
    split = shard.grid.tp > 1
    return near.when(np.logical_not(split)) + far.when(split)
