"""Kernel work of what the modeling files of transformers write out in PyTorch's operations (`Recipe.written_out`).

In passes that read or write an element in half precision, so that one in fp32 counts two. The GELU of GPT-2,
0.5 x (1 + tanh(c (x + 0.044715 x^3))), and, in brackets, under autocast, which takes powers in fp32:

    forward    power 2 (converted 3, 4), scaled 2 (4), added 3 (5), scaled 2 (4), tanh 2 (4), plus one 2 (4), half of x
               2 (2), product 3 (5; converted for the down product 3)
    backward   of the product 6 (converted 3, 11, narrowed 3), half 2 (2), tanh 3 (6), scaled 2 (4), sum 3 (narrowed 3,
               sum 3), scaled 2 (4), power 7 (14), sum 3 (narrowed 3, sum 3)

Attention without a fused kernel, per score: scaled 2, mask added 2 (3, in fp32), converted 3 (0), softmax in fp32 4,
converted 3; backward converted 3, softmax 6, converted 3, scaled 2. Keys and values are repeated for every query head.

Source: huggingface/transformers, activations.py (NewGELUActivation) and models/llama/modeling_llama.py
(eager_attention_forward, repeat_kv); PyTorch, aten/src/ATen/autocast_mode.h (pow in fp32) and tools/autograd/
derivatives.yaml.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lockstep.kernels.autocast import casts
from lockstep.kernels.shard import Passes, Shard
from lockstep.types.arrays import Number

GELU, AUTOCAST_GELU = (18.0, 28.0, 8, 11), (38.0, 59.0, 10, 15)
"""Passes forward and backward, and kernels of either."""
SCORES, AUTOCAST_SCORES = (14.0, 14.0, 5, 4), (12.0, 14.0, 4, 4)


def written_gelu(shard: Shard, elements: Number) -> Passes:
    """GPT-2's activation on so many elements."""
    return _each(shard, elements, AUTOCAST_GELU if shard.recipe.autocast else GELU)


def written_scores(shard: Shard, scores: Number) -> Passes:
    """What attention does to so many scores between its two products."""
    wide = casts(shard)
    return _each(shard, scores, [np.where(wide, *both) for both in zip(AUTOCAST_SCORES, SCORES, strict=True)])


def _each(shard: Shard, elements: Number, passes: Sequence[Number]) -> Passes:
    forward, backward, there, back = passes
    return shard.operations(elements, forward, backward, there, back)
