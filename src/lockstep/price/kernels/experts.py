"""Kernel work of a layer of experts: router, permutation, routed experts, shared ones; and what the host launches.

Of E experts a rank holds E/ep, each cut by etp, and each with an equal share of the rows of `routed_tokens`. Their
products are a kernel for all of them, or one for each (`experts` of `describe/stacks/ways.toml`, `apart`), which costs
the device the same and the host E/ep times as many launches. In narrow formats every expert's input and gradient is
then cast by itself:

    launches beyond one per product, forward and backward:   2 (E/ep (casts + sets) - 2),  2 (E/ep (casts + 2 sets) - 3)

with the launches of a cast (`CASTS`), and of a product with what lays out the scales of its two operands (`SETS`).

A loop whose experts read slices of the rows and write slices of the result (`Habits.sliced_experts`) costs, in passes
over all rows of a rank and for E/ep experts: zeros (1), copied (2); backward 3, of several E 6 E + 4 - 3/E, as each
gets tensors of all rows, which are added up. Where experts are cut, what tensor-parallel ranks gather of the rows by
columns, and reduce, is joined anew: 4 and 4.

Sources: NVIDIA/TransformerEngine, pytorch/module/grouped_linear.py (a product and a quantiser per expert) and
pytorch/csrc/quantizer.cpp (casts); of Megatron-LM's release 0.9 core/transformer/moe/experts.py (SequentialMLP),
token_dispatcher.py and core/tensor_parallel/mappings.py (_gather_along_last_dim, _reduce_scatter_along_last_dim).
"""

from __future__ import annotations

import numpy as np

from lockstep.base.types.arrays import Number
from lockstep.describe.workload import Experts
from lockstep.price.kernels.clock import Work
from lockstep.price.kernels.permutation import grouped, permuted
from lockstep.price.kernels.shard import Passes, Shard
from lockstep.price.kernels.slots import Parts, slot_work, way_work
from lockstep.price.layout import way

CASTS, CURRENT = {"fp8": 1, "mxfp8": 1, "nvfp4": 2}, 4
"""Launches of a cast; in fp8 with current scaling clear, largest value, scale, cast."""
SETS = {"mxfp8": 3, "nvfp4": 3}


def choice_work(shard: Shard, moe: Experts) -> Passes:
    """What chooses experts for the tokens of a rank, beside the product."""
    found = slot_work(shard, "router", shard.loose_tokens * moe.experts)
    return found if shard.recipe.cuda_graphs == "none" else found.replayed


def exchanged_rows(shard: Shard, moe: Experts) -> Passes:
    """What brings rows to experts and back once it is known how many each gets, and what a loop over experts adds."""
    local, numbers = shard.local_experts, shard.expert_rows * shard.model.hidden
    parts = grouped(shard, moe.ffn / shard.grid.expert_tp, shard.expert_rows / local, local, moe.gated)
    biased: Parts = {"biases": (numbers / local, local), "biased": (numbers, 1)} if moe.out_bias else {}
    parts += permuted(shard, moe) + slot_work(shard, "experts", numbers, parts=biased)
    if way(shard.recipe, shard.model, "experts").numbers.get("apart"):
        parts += _launches(shard, local)
        if shard.recipe.habits.sliced_experts:
            parts += _sliced(shard, numbers * shard.clock.element_B, local)
    return parts + slot_work(shard, "expert_padding", numbers)


def clamped(shard: Shard, moe: Experts) -> Passes:
    """Gate and up of experts with biases, which are gpt-oss's, are clamped before their function."""
    part = way(shard.recipe, shard.model, "experts").parts.get("clamped")
    if part is None or not moe.out_bias:
        return Passes(Work(), Work())
    return way_work(shard.clock, part, shard.expert_rows * 2 * moe.ffn / shard.grid.expert_tp)


def _sliced(shard: Shard, size_B: Number, local: Number) -> Passes:
    """What slices of rows of `size_B` cost."""
    stream, apart = shard.clock.stream, local > 1
    back, kernels = np.where(apart, 6 * local + 4 - 3 / local, 3), np.where(apart, 7 * local - 3, 2)
    joined = stream(4 * size_B, 2).when(shard.grid.expert_tp > 1)
    return Passes(stream(3 * size_B, 1 + local) + joined, stream(back * size_B, kernels) + joined)


def _launches(shard: Shard, local: Number) -> Passes:
    """What the host launches beside one kernel for each kind of product."""
    dtype = shard.clock.dtype
    casts, each = CASTS.get(dtype, 0), SETS.get(dtype, 1)
    if dtype == "fp8" and shard.recipe.scaling == "current":
        casts = CURRENT
    more_forward = 2 * (local * (casts + each) - 1 - (casts > 0))
    more_backward = 2 * (local * (casts + 2 * each) - 2 - (casts > 0))
    return Passes(Work(kernels=more_forward), Work(kernels=more_backward))
