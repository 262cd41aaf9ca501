"""Kernel work of what autograd adds up: gradients of what several products read, and of biases.

Where queries, keys, values, a gate and its other half are products of their own, the gradients of what they read are
added, every one but the first of each block. All sums are slots (`input_sum`, `residual` and `bias` of
`describe/stacks/ways.toml`).

Source: huggingface/transformers, models/llama/modeling_llama.py (LlamaAttention and LlamaMLP), for products of their
own; PyTorch, torch/csrc/autograd/input_buffer.cpp (accumulate).
"""

from __future__ import annotations

import numpy as np

from lockstep.base.types.arrays import Number
from lockstep.describe.workload import LayerKind, Weight, layer_weights
from lockstep.price.kernels.clock import Work
from lockstep.price.kernels.formats import readers
from lockstep.price.kernels.shard import Passes, Shard
from lockstep.price.kernels.slots import casts, slot_work, stream_work
from lockstep.price.layout import way

JOINT = {"key": "query", "value": "query", "gate": "up"}
"""Matrices that are one tensor with another."""


def input_sums(shard: Shard, kind: LayerKind) -> Passes:
    """Sums of the gradients of what several products read."""
    model, recipe = shard.model, shard.recipe
    block = model.mlp if kind.block == "dense" else model.experts
    count: Number = 0
    if recipe.habits.own_projections and block is not None and block.gated:
        count = 2 * (kind.attends and not recipe.habits.joint_qkv) + (kind.block == "dense")
    mask = casts(shard)
    if np.any(mask):
        count = np.where(mask, (readers(shard) - 2) * kind.residual_blocks / 2, count)
    return stream_work(shard, "input_sum", shard.loose_tokens * model.hidden, count)


def bias_sums(shard: Shard, kind: LayerKind) -> Passes:
    """Sums over tokens that give the gradients of biases."""
    if shard.recipe.adapters is not None:
        return Passes(Work(), Work())
    found, grid = Passes(Work(), Work()), shard.grid
    for bias in tensors(shard, kind):
        if bias.name.endswith(" bias") and bias.category in ("attention", "mlp"):
            rows = shard.loose_tokens if bias.cut == "none" else shard.tokens
            found += slot_work(shard, "bias", rows * bias.elems / bias.ways(grid.tp, grid.expert_tp))
    each = way(shard.recipe, shard.model, "bias").kernels[1]
    launched = each * sum(stands_alone(one) for one in tensors(shard, kind) if one.name.endswith(" bias"))
    return Passes(Work(), Work(stream_s=found.backward.stream_s, kernels=launched))


def tensors(shard: Shard, kind: LayerKind) -> tuple[Weight, ...]:
    """All weights of a layer."""
    return layer_weights(shard.model, kind.stored)


def stands_alone(weight: Weight) -> bool:
    """Whether a weight is a tensor of its own."""
    return weight.name.removesuffix(" bias") not in JOINT
