"""Kernel work of what attention does to its scores where it is not fused: scaling, mask, softmax and dropout.

Megatron-LM has one kernel for the first three if the sequences of a micro-batch times the heads of a rank are a
multiple of four; with a causal mask it reads the half that the mask leaves, and writes all. If not, PyTorch's
operations take its place, one after another. The ways are `scores` of `describe/stacks/ways.toml`.

Sources: NVIDIA/Megatron-LM, megatron/model/fused_softmax.py (is_kernel_available: attn_batches % 4) and
megatron/fused_kernels/scaled_upper_triang_masked_softmax.h (batch_element_count); the same in
bigscience-workshop/Megatron-DeepSpeed, in VIA-Research/vTrain, src/model/, and in NVIDIA/TransformerEngine,
pytorch/softmax.py.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.types.arrays import Number, Truth
from lockstep.describe.stacks import find_way
from lockstep.price.kernels.shard import Passes, Shard
from lockstep.price.kernels.slots import casts, way_work
from lockstep.price.layout import way

DROPOUT = 2.5
"""Passes of dropout in either direction: read, written, and a mask of one byte."""
AT_ONCE = 4
"""Scores of so many heads are the least that the one kernel takes."""


def score_work(shard: Shard, count: Number, scores: Number, causal: bool) -> Passes:
    """Work over the `scores` of `count` heads in all."""
    dropout, kernel = int(shard.recipe.dropout), "causal" if causal else "kernel"
    if way(shard.recipe, shard.model, "scores").name == "written":
        both = _either(shard, scores, casts(shard), "autocast", "written")
    else:
        both = _either(shard, scores, np.mod(count, AT_ONCE) == 0, kernel, "several")
    return both + shard.elementwise(scores, DROPOUT * dropout, DROPOUT * dropout, dropout)


def _either(shard: Shard, scores: Number, where: Truth, name: str, other: str) -> Passes:
    """One way of scores where a condition holds, the other elsewhere."""
    one, two = (way_work(shard.clock, find_way("scores", each), scores) for each in (name, other))
    return one.when(where) + two.when(np.logical_not(where))
