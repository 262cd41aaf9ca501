"""Kernel work of a layer of experts: router, permutation, routed experts, shared ones; and what the host launches.

Of E experts a rank holds E/ep, each cut by etp, and each with an equal share of the rows of `routed_tokens`. Their
products are a kernel for all of them (grouped), or one for each, which costs the device the same and the host E/ep
times as many launches. In narrow formats every expert's input and gradient is cast by itself:

    launches beyond one per product, forward and backward:   2 (E/ep (casts + sets) - 2),  2 (E/ep (casts + 2 sets) - 3)

with the launches of a cast (`CASTS`), and of a product with what lays out the scales of its two operands (`SETS`).

Sources: NVIDIA/TransformerEngine, pytorch/module/grouped_linear.py (a product and a quantiser per expert) and
pytorch/csrc/quantizer.cpp (current scaling: clear, largest value, scale, cast); NVIDIA/Megatron-LM,
core/transformer/moe/router.py and moe_utils.py for the router's operations.
"""

from __future__ import annotations

from lockstep.kernels.clock import Work
from lockstep.kernels.feed_forward import feed_forward
from lockstep.kernels.shard import Passes, Shard
from lockstep.types.arrays import Number
from lockstep.workload import Experts

CASTS = {"fp8": 4, "mxfp8": 1, "nvfp4": 2}
SETS = {"mxfp8": 3, "nvfp4": 3}
ROUTER = 30, 15
"""Launches of a router written in PyTorch's operations: gate, scores, choice, map of tokens to experts, and the loss
that balances them."""


def experts(shard: Shard, moe: Experts) -> Passes:
    """Router, permutation, routed experts and shared ones."""
    h, local, width = shard.model.hidden, moe.experts / shard.grid.ep, moe.ffn / shard.grid.expert_tp
    parts = shard.product(shard.loose_tokens, moe.experts, h)
    parts += feed_forward(shard, width, shard.routed_tokens * moe.top_k / local, local, moe.gated)
    parts += shard.elementwise(shard.loose_tokens * moe.top_k * h, 4.0, 4.0, kernels=4)
    return parts + _launches(shard, local) + shared_experts(shard, moe)


def _launches(shard: Shard, local: Number) -> Passes:
    """What the host launches beside one kernel for each kind of product."""
    recipe, dtype = shard.recipe, shard.clock.dtype
    forward, backward = ROUTER if recipe.cuda_graphs == "none" else (0, 0)
    if recipe.grouped_experts:
        return Passes(Work(kernels=forward), Work(kernels=backward))
    casts, each = CASTS.get(dtype, 0), SETS.get(dtype, 1)
    more_forward = 2 * (local * (casts + each) - 1 - (casts > 0))
    more_backward = 2 * (local * (casts + 2 * each) - 2 - (casts > 0))
    return Passes(Work(kernels=forward + more_forward), Work(kernels=backward + more_backward))


def shared_experts(shard: Shard, moe: Experts) -> Passes:
    """The experts that every token visits, where it is."""
    if not moe.shared_ffn:
        return Passes(Work(), Work())
    return feed_forward(shard, moe.shared_ffn / shard.grid.tp, shard.tokens, 1, moe.gated)
