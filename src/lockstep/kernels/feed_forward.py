"""Kernel work of feed-forward blocks: the products and the function between them.

Symbols: T tokens, h hidden, f columns of the block on the rank. Forward T x h by h x f (twice as many columns with a
gate) and T x f by f x h; backward two products for each. Source: N. Shazeer, "GLU variants improve transformer" (arXiv
2002.05202), for gated blocks.
"""

from __future__ import annotations

from lockstep.kernels.shard import Passes, Shard
from lockstep.kernels.slots import slot_work
from lockstep.types.arrays import Number


def feed_forward(shard: Shard, width: Number, tokens: Number, count: Number, gated: bool) -> Passes:
    """`count` feed-forward blocks over `tokens` tokens each, of which a rank holds `width` columns."""
    h = shard.model.hidden
    parts = shard.product(tokens, width * (2 if gated else 1), h, count) + shard.product(tokens, h, width, count)
    return parts + activation(shard, width, tokens, count, gated)


def activation(shard: Shard, width: Number, tokens: Number, count: Number, gated: bool) -> Passes:
    """The function between the products of `count` such blocks."""
    return slot_work(shard, "gate" if gated else "activation", tokens * width * count)
