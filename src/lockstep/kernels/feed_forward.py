"""Kernel work of feed-forward blocks: the products and the function between them.

Symbols: T tokens, h hidden, f columns of the block on the rank. Forward T x h by h x f (twice as many columns with a
gate) and T x f by f x h; backward two products for each. Source: N. Shazeer, "GLU variants improve transformer" (arXiv
2002.05202), for gated blocks.
"""

from __future__ import annotations

from lockstep.kernels.copies import cut_gate
from lockstep.kernels.shard import Passes, Shard
from lockstep.kernels.written import written_gelu
from lockstep.types.arrays import Number


def feed_forward(shard: Shard, width: Number, tokens: Number, count: Number, gated: bool) -> Passes:
    """`count` feed-forward blocks over `tokens` tokens each, of which a rank holds `width` columns."""
    h = shard.model.hidden
    parts = shard.product(tokens, width * (2 if gated else 1), h, count) + shard.product(tokens, h, width, count)
    return parts + activation(shard, width, tokens, count, gated)


def activation(shard: Shard, width: Number, tokens: Number, count: Number, gated: bool) -> Passes:
    """The function between the products of `count` such blocks.

    In kernels of their own a gate's function reads and writes (2) and its product with the other half follows (3);
    backward come two products (6) and the function's gradient (3).
    """
    elements, recipe = tokens * width * count, shard.recipe
    if recipe.habits.written_out and not gated and shard.model.mlp and shard.model.mlp.activation == "gelu_new":
        return written_gelu(shard, elements)
    if gated and not (recipe.fused_elementwise or recipe.habits.fused_gate):
        return shard.elementwise(elements, 5.0, 9.0, kernels=2) + cut_gate(shard, elements)
    return shard.elementwise(elements, 3.0 if gated else 2.0, 5.0 if gated else 3.0)
