"""Kernel work of a layer of experts: router, permutation, routed experts, shared ones; and what the host launches.

Of E experts a rank holds E/ep, each cut by etp, and each with an equal share of the rows of `routed_tokens`. Their
products are a kernel for all of them (grouped), or one for each, which costs the device the same and the host E/ep
times as many launches. In narrow formats every expert's input and gradient is cast by itself:

    launches beyond one per product, forward and backward:   2 (E/ep (casts + sets) - 2),  2 (E/ep (casts + 2 sets) - 3)

with the launches of a cast (`CASTS`), and of a product with what lays out the scales of its two operands (`SETS`).

Where experts are run by such a loop, what the layer does to all rows of a rank besides costs, in passes that read or
write an element in half precision, and for E/ep experts:

    biases (gpt-oss)     of what comes out, times the weights in fp32: forward product (2), sum (5), joined (4) and
                         converted (3); backward converted (3 + 3), two products (8), sums (4), joined (2). Gate and up
                         are clamped (2) and joined (2); backward 7.5, with masks of a byte
    slices               each expert reads a slice of the rows and writes one of the result: zeros (1), copied (2);
                         backward 3, of several E 6 E + 4 - 3/E, as each gets tensors of all rows, which are added up
    padding              rows are copied to where each expert has a multiple of 16 or 32 (2), and what comes out back
                         (2); backward the same. It is no part of the loop, but of its formats
    cut by columns       what tensor-parallel ranks gather of the rows, and reduce, is joined anew: 4 and 4

Sources: NVIDIA/TransformerEngine, pytorch/module/grouped_linear.py (a product and a quantiser per expert) and
pytorch/csrc/quantizer.cpp (casts), pytorch/module/fp8_padding.py; NVIDIA/Megatron-LM,
core/transformer/moe/router.py and moe_utils.py for the router's operations, experts.py (TEGroupedMLP._apply_bias),
core/fusions/fused_bias_geglu.py (weighted_bias_quick_geglu_impl); of release 0.9 experts.py (SequentialMLP),
token_dispatcher.py and core/tensor_parallel/mappings.py (_gather_along_last_dim, _reduce_scatter_along_last_dim).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lockstep.kernels.clock import Work
from lockstep.kernels.permutation import grouped, permuted
from lockstep.kernels.shard import Passes, Shard
from lockstep.types.arrays import Number
from lockstep.workload import Experts

CASTS, CURRENT = {"fp8": 1, "mxfp8": 1, "nvfp4": 2}, 4
"""Launches of a cast; in fp8 with current scaling clear, largest value, scale, cast."""
SETS = {"mxfp8": 3, "nvfp4": 3}
ROUTER = 30, 15
"""Launches of a router written in PyTorch's operations: gate, scores, choice, map of tokens to experts, and the loss
that balances them."""


BIASED, CLAMPED = (14.0, 20.0), (4.0, 7.5)
"""Passes over what comes out of the experts, and over gate and up, forward and backward."""


def choice_work(shard: Shard) -> Passes:
    """Launches of what chooses experts for the tokens of a rank, beside the product."""
    forward, backward = ROUTER if shard.recipe.cuda_graphs == "none" else (0, 0)
    return Passes(Work(kernels=forward), Work(kernels=backward))


def exchanged_rows(shard: Shard, moe: Experts) -> Passes:
    """What brings rows to experts and back once it is known how many each gets, and what a loop over experts adds."""
    local, width = shard.local_experts, moe.ffn / shard.grid.expert_tp
    rows = shard.expert_rows / local
    parts = grouped(shard, width, rows, local, moe.gated) + permuted(shard, moe)
    if not shard.recipe.habits.grouped_experts:
        parts += _looped(shard, moe, local)
    if shard.recipe.habits.padded_experts and shard.clock.dtype in CASTS:
        rows_B = rows * local * shard.model.hidden * shard.clock.element_B
        parts += Passes(shard.clock.stream(4 * rows_B, 2), shard.clock.stream(4 * rows_B, 2))
    return parts + _launches(shard, local)


def clamped(shard: Shard, moe: Experts) -> Passes:
    """Gate and up of experts with biases, which are gpt-oss's, are clamped before their function."""
    if shard.recipe.habits.grouped_experts or not moe.out_bias:
        return Passes(Work(), Work())
    width = 2 * moe.ffn / shard.grid.expert_tp
    found = shard.operations(shard.expert_rows * width, *CLAMPED)
    return Passes(replace(found.forward, kernels=3), replace(found.backward, kernels=7))


def _looped(shard: Shard, moe: Experts, local: Number) -> Passes:
    """What a loop over the experts of a rank does to all its rows, as PyTorch's operations."""
    recipe, clock = shard.recipe, shard.clock
    rows = shard.expert_rows * shard.model.hidden
    parts = Passes(Work(), Work())
    if moe.out_bias:
        found = shard.operations(rows, *BIASED)
        parts += Passes(replace(found.forward, kernels=2 * local + 2), replace(found.backward, kernels=6 * local + 3))
    if recipe.habits.sliced_experts:
        apart, size_B = local > 1, rows * clock.element_B
        back, kernels = np.where(apart, 6 * local + 4 - 3 / local, 3), np.where(apart, 7 * local - 3, 2)
        parts += Passes(clock.stream(3 * size_B, 1 + local), clock.stream(back * size_B, kernels))
        joined = clock.stream(4 * size_B, 2).when(shard.grid.expert_tp > 1)
        parts += Passes(joined, joined)
    return parts


def _launches(shard: Shard, local: Number) -> Passes:
    """What the host launches beside one kernel for each kind of product."""
    recipe, dtype = shard.recipe, shard.clock.dtype
    if recipe.habits.grouped_experts:
        return Passes(Work(), Work())
    casts, each = CASTS.get(dtype, 0), SETS.get(dtype, 1)
    if dtype == "fp8" and recipe.scaling == "current":
        casts = CURRENT
    more_forward = 2 * (local * (casts + each) - 1 - (casts > 0))
    more_backward = 2 * (local * (casts + 2 * each) - 2 - (casts > 0))
    return Passes(Work(kernels=more_forward), Work(kernels=more_backward))
