"""Kernel work of what the modeling files of transformers write out in PyTorch's operations (`Habits.written_out`).

In passes that read or write an element in half precision, so that one in fp32 counts two. The GELU of GPT-2,
0.5 x (1 + tanh(c (x + 0.044715 x^3))), and, in brackets, under autocast, which takes powers in fp32:

    forward    power 2 (converted 3, 4), scaled 2 (4), added 3 (5), scaled 2 (4), tanh 2 (4), plus one 2 (4), half of x
               2 (2), product 3 (5; converted for the down product 3)
    backward   of the product 6 (converted 3, 11, narrowed 3), half 2 (2), tanh 3 (6), scaled 2 (4), sum 3 (narrowed 3,
               sum 3), scaled 2 (4), power 7 (14), sum 3 (narrowed 3, sum 3)

Attention without a fused kernel, per score: scaled 2, mask added 2 (3, in fp32), converted 3 (0), softmax in fp32 4,
converted 3; backward converted 3, softmax 6, converted 3, scaled 2. Keys and values are repeated for every query head.
Copies to fp32 take longer than their bytes, the sum with an fp32 mask three times as long (MASKED).

Source: huggingface/transformers, activations.py (NewGELUActivation) and models/llama/modeling_llama.py
(eager_attention_forward, repeat_kv); PyTorch, aten/src/ATen/autocast_mode.h (pow in fp32), tools/autograd/
derivatives.yaml and aten/src/ATen/native/cuda/SoftMax.cu (softmax_backward_cuda_out: grad * output).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lockstep.kernels.autocast import casts
from lockstep.kernels.clock import MIXED, WIDENED
from lockstep.kernels.shard import Passes, Shard
from lockstep.types.arrays import Number

GELU, AUTOCAST_GELU = (18.0, 28.0, 8, 11), (38.0, 59.0, 10, 15)
"""Passes forward and backward, and kernels of either."""
SLOW_GELU = (3.0, 10.0), (3.0, 5.0)
"""Of these under autocast, passes of copies to fp32 and of kernels on both formats, forward and backward."""
SCORES, AUTOCAST_SCORES = (14.0, 14.0, 5, 4), (12.0, 14.0, 4, 4)
PRODUCT = 6.0
"""Passes more of softmax's gradient on a GPU, which multiplies two fp32 tensors into a third first."""
MASKED = 3.3
"""Times as long as its bytes that adding an fp32 mask to scores in half precision took in a step on H100, whose kernel
casts and computes where it reads (tests/diagnosis/h100)."""


def written_gelu(shard: Shard, elements: Number) -> Passes:
    """GPT-2's activation on so many elements."""
    if not shard.recipe.habits.autocast:
        return _each(shard, elements, GELU)
    (forward, backward, *kernels), bound = AUTOCAST_GELU, shard.clock.instruction_bound
    slower = bound(WIDENED) - 1.0, bound(MIXED) - 1.0
    there, back = (slower[0] * copied + slower[1] * both for copied, both in SLOW_GELU)
    return _each(shard, elements, (forward + there, backward + back, *kernels))


def written_scores(shard: Shard, scores: Number) -> Passes:
    """What attention does to so many scores between its two products."""
    wide, bound = casts(shard), shard.clock.instruction_bound
    forward, backward, there, back = (np.where(wide, *both) for both in zip(AUTOCAST_SCORES, SCORES, strict=True))
    widened = 3.0 * (bound(WIDENED) - 1.0)
    forward = forward + np.where(wide, 3.0 * (bound(MASKED) - 1.0), widened)
    return _each(shard, scores, (forward, backward + widened + PRODUCT, there, back + 1))


def _each(shard: Shard, elements: Number, passes: Sequence[Number]) -> Passes:
    forward, backward, there, back = passes
    return shard.operations(elements, forward, backward, there, back)
