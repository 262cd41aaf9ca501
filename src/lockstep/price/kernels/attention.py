"""Kernel work of attention itself: scores, softmax and the weighted sum of values, whole or shared by ranks.

Symbols: s tokens per sequence, a heads, d head size; everything broadcasts over the layout grid.

Source: FlashAttention-2 (arXiv 2307.08691) section 3 for the FLOPs of a fused kernel: forward 2 products over the
scores, backward 5.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lockstep.base.types.arrays import Number
from lockstep.describe.workload import keys_per_query
from lockstep.price.kernels.clock import Work
from lockstep.price.kernels.scores import score_work
from lockstep.price.kernels.shard import Passes, Shard
from lockstep.price.kernels.slots import Parts, slot_work
from lockstep.price.layout.ways import recipe_traits
from lockstep.simulate.parallel.context import partials

ADDED_POSITIONS = {"alibi": (2.0, 0.0), "relative": (2.0, 1.0)}
"""Passes over scores that add positions to them, forward and backward, where attention is not fused."""


def attention_core(shard: Shard, window: int, causal: bool | None = None, bias: bool = True) -> Passes:
    """Scores, softmax and the weighted sum of values.

    A fused kernel executes 2 products forward and 5 backward over the scores that a causal mask leaves (half of
    them); the unfused one computes all scores and moves them through memory for scaling, softmax and dropout. ALiBi's
    bias is then written where the scores go and read by their product, which adds to it (`baddbmm`). Relative positions
    are added to the scores in place, and their gradient is a sum over sequences. The output is copied from heads to
    tokens. Packed samples do not attend to one another in fused kernels. A kernel with a window runs as fast as one
    over the sequences in whose triangle a query meets as many keys: the tiles on the diagonal are as many. In a ring
    one step has a rank's own tokens under the mask, the others all queries and half of the keys, or the reverse.
    """
    attention, recipe, grid = shard.model.attention, shard.recipe, shard.grid
    heads, per_head = attention.heads / grid.tp, grid.micro_batch * recipe.passed_seq / grid.cp
    query_dim, value_dim = attention.head_dim, attention.value_dim
    causal = attention.causal if causal is None else causal
    if recipe.flash_attention:
        length = recipe.attended_tokens
        keys = keys_per_query(length, window or None, causal, "causal", attention.chunked)
        scores = per_head * keys * heads
        flops = 2.0 * scores * (query_dim + value_dim)
        executed_backward = 2.0 * scores * (3 * query_dim + 2 * value_dim)
        fused, size = shard.clock.fused_attention, (2.0 * keys if causal else keys, query_dim, causal)
        own: Number = 1.0
        both = Passes(Work(), Work())
        if causal and not window and recipe.cp_kind == "ring" and recipe.sample_tokens is None:
            own, size = 1.0 / grid.cp, (length / grid.cp, query_dim, True)
            apart, half = 1.0 - own, (length / grid.cp / 2, query_dim, False)
            steps = fused(apart * flops, *half), fused(apart * executed_backward, *half, backward=True)
            both = Passes(*(replace(work, kernels=grid.cp - 1) for work in steps))
        both += Passes(fused(own * flops, *size), fused(own * executed_backward, *size, backward=True))
        return both + _merging(shard, heads * value_dim)
    count, rows = grid.micro_batch * heads, recipe.passed_seq / grid.cp
    products = shard.product(rows, recipe.passed_seq, query_dim, count) + shard.product(
        rows, value_dim, recipe.passed_seq, count
    )
    if bias and shard.model.positions in ADDED_POSITIONS:
        products += shard.elementwise(count * rows * recipe.passed_seq, *ADDED_POSITIONS[shard.model.positions])
    products += shard.elementwise(count * rows * value_dim, 2.0, 2.0)
    return products + score_work(shard, count, count * rows * recipe.passed_seq, causal)


def _merging(shard: Shard, width: Number) -> Passes:
    """What surrounds the parts of attention that context-parallel ranks share out: `context` of `stacks/ways.toml`."""
    ranks = shard.grid.cp
    if not np.any(ranks > 1):
        return Passes(Work(), Work())
    gathers = "torch_context" in recipe_traits(shard.recipe)
    count = ranks if gathers else partials(shard.recipe.cp_kind, ranks, shard.kv_heads)
    several, queries = count > 1, shard.tokens * width
    keys = 2.0 * shard.tokens * shard.kv_heads * shard.model.attention.head_dim
    parts: Parts = {
        "later": (queries, np.maximum(0, count - 1)),
        "exchanged": (queries, np.where(several, count, 0)),
        "keys": (keys, several),
        "keys_exchanged": (keys, np.where(several, count, 0)),
    }
    return slot_work(shard, "context", queries, several, parts)
