"""Kernel work of what attention does to its scores where it is not fused: scaling, mask, softmax and dropout.

Megatron-LM has one kernel for the first three, 2 passes forward and 3 backward, if the sequences of a micro-batch times
the heads of a rank are a multiple of four. With a causal mask it reads the half that the mask leaves, and writes all:
1.5 and 2. If not, PyTorch's operations take its place, one after another, in passes
that read or write an element in half precision, so that one in fp32 counts two:

    forward    converted to fp32 (3), scaled (4), masked in place (4), softmax (4), converted (3)
    backward   converted (3), softmax (6), copied and masked (8), scaled (4), converted (3)

Dropout is a kernel of its own. What transformers writes out: `written.py`.

Sources: NVIDIA/Megatron-LM, megatron/model/fused_softmax.py (is_kernel_available: attn_batches % 4; and
forward_torch_softmax) and megatron/fused_kernels/scaled_upper_triang_masked_softmax.h (batch_element_count); the same
in bigscience-workshop/Megatron-DeepSpeed, in VIA-Research/vTrain, src/model/, and in NVIDIA/TransformerEngine,
pytorch/softmax.py.
"""

from __future__ import annotations

import numpy as np

from lockstep.kernels.shard import Passes, Shard
from lockstep.kernels.written import written_scores
from lockstep.types.arrays import Number

ONE_KERNEL, CAUSAL, SEVERAL = (2.0, 3.0, 1, 1), (1.5, 2.0, 1, 1), (18.0, 24.0, 5, 6)
"""Passes forward and backward, and kernels of either."""
TAKES = (1.17, 1.35)
"""Times as long as their passes that several kernels took alone on H100 (h100_kernels.csv)."""
DROPOUT = 2.5
"""Passes of dropout in either direction: read, written, and a mask of one byte."""
AT_ONCE = 4
"""Scores of so many heads are the least that the one kernel takes."""


def score_work(shard: Shard, count: Number, scores: Number, causal: bool) -> Passes:
    """Work over the `scores` of `count` heads in all."""
    dropout = int(shard.recipe.dropout)
    both = written_scores(shard, scores) if shard.recipe.habits.written_out else _softmax(shard, count, scores, causal)
    return both + shard.elementwise(scores, DROPOUT * dropout, DROPOUT * dropout, dropout)


def _softmax(shard: Shard, count: Number, scores: Number, causal: bool) -> Passes:
    there, back, *_ = CAUSAL if causal else ONE_KERNEL
    one = shard.elementwise(scores, there, back)
    apart = shard.operations(scores, SEVERAL[0] * TAKES[0], SEVERAL[1] * TAKES[1], *SEVERAL[2:])
    kernel = np.mod(count, AT_ONCE) == 0
    several = np.logical_not(kernel)
    return Passes(
        one.forward.when(kernel) + apart.forward.when(several), one.backward.when(kernel) + apart.backward.when(several)
    )
