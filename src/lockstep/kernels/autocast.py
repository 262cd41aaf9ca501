"""Kernel work that torch.autocast adds: parameters, norms and residuals are fp32, and products cast what they read.

In passes that read or write an element in half precision, over the residual stream of a layer, beside what `layer.py`
counts of software without it. n products read the stream: queries, keys, values or all three at once, and one or two
of the feed-forward block.

    norms      written out, they need no conversion and are fp32 throughout: 4 less forward, 4 more backward (of two
               gradients to add, one more in fp32); a kernel of its own moves twice the bytes
    products   each casts its input for itself (3), as autocast keeps casts of parameters alone; backward its gradient
               is widened (3), and all but one of each block are added to the others' in fp32 (6)
    residuals  additions are of fp32 and half precision (5 each); gradients of two ways add in fp32 (6), and are cast
               for the product before (3): 4 and 12 more than in half precision

Sums of two formats and copies to fp32 take longer than their bytes (MIXED, WIDENED).

Of the parameters of a layer, once per micro-batch: 6 bytes to cast each, 6 to widen its gradient, and 12 to add it to
that of the micro-batches before. FSDP casts what it gathers instead, and its activations are in half precision.

Source: PyTorch, aten/src/ATen/autocast_mode.h (cached_cast: leaves that require gradients) and the kernels of a step of
Hugging Face's Llama under torch.profiler, which are these.
"""

from __future__ import annotations

import numpy as np

from lockstep.kernels.clock import MIXED, WIDENED, Work
from lockstep.kernels.norms import norm_passes, writes_norms
from lockstep.kernels.shard import Passes, Shard
from lockstep.layout.sharing import widened
from lockstep.types.arrays import Number, Truth

CAST, WIDENED_SUM, PARAMETER_B, SUM_B = 3.0, 6.0, 6.0, 12.0
ADDED, RESIDUALS = 5.0, (4.0, 12.0)


def casts(shard: Shard) -> Truth:
    """Where products cast what they read."""
    return widened(shard.recipe, shard.grid)


def autocast_work(shard: Shard) -> Passes:
    """What it adds to the norms, residuals and inputs of a layer's products."""
    model = shard.model
    if not shard.recipe.habits.autocast or model.mlp is None:
        return Passes(Work(), Work())
    readers = (1 if shard.recipe.habits.joint_qkv else 3, 2 if model.mlp.gated else 1)
    norm = (-4.0, 4.0) if writes_norms(shard) else norm_passes(shard)
    widened, slower = shard.clock.instruction_bound(WIDENED), 2.0 * ADDED * (shard.clock.instruction_bound(MIXED) - 1.0)
    forward = 2.0 * norm[0] + CAST * sum(readers) + RESIDUALS[0] + slower
    backward = 2.0 * norm[1] + widened * CAST * sum(readers) + WIDENED_SUM * (sum(readers) - 2) + RESIDUALS[1]
    found = shard.elementwise(shard.loose_tokens * model.hidden, forward, backward, kernels=2 * sum(readers))
    return found.when(casts(shard))


def parameter_work(shard: Shard, parameters: Number, tensors: int) -> Passes:
    """Casts of a layer's parameters and their gradients, and sums over micro-batches."""
    count = np.maximum(1.0, shard.grid.microbatches(shard.recipe.batch))
    stream, widened = shard.clock.stream, shard.clock.instruction_bound(WIDENED)
    widened_B = widened * PARAMETER_B + SUM_B * (1.0 - 1.0 / count)
    return Passes(stream(PARAMETER_B * parameters, tensors), stream(widened_B * parameters, 2 * tensors))
