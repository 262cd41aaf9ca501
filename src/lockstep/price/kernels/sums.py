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
from lockstep.price.layout.sharing import one_product

JOINT = {"key": "query", "value": "query", "gate": "up"}
"""Matrices that are one tensor with another."""


def input_sums(shard: Shard, kind: LayerKind) -> Passes:
    """Sums of the gradients of what several products read."""
    model, recipe, mlp = shard.model, shard.recipe, shard.model.mlp
    gated = kind.block == "dense" and mlp is not None and mlp.gated
    count: Number = 2 * (kind.attends and not one_product(recipe, model, "qkv"))
    count += gated and not one_product(recipe, model, "gate_up")
    # A router and the rows of its experts.
    routed = kind.experts and recipe.habits.own_projections
    mask = casts(shard)
    if np.any(mask):
        count = np.where(mask, sum(one - 1 for one in readers(shard, kind)), count)
    return stream_work(shard, "input_sum", shard.loose_tokens * model.hidden, count + routed)


def bias_sums(shard: Shard, kind: LayerKind) -> Passes:
    """Sums over tokens that give the gradients of biases."""
    if shard.recipe.adapters is not None:
        return Passes(Work(), Work())
    found, grid = Passes(Work(), Work()), shard.grid
    biases = [
        one for one in tensors(shard, kind) if one.name.endswith(" bias") and one.category in ("attention", "mlp")
    ]
    for bias in biases:
        rows = shard.loose_tokens if bias.cut == "none" else shard.tokens
        found += slot_work(shard, "bias", rows * bias.elems / bias.ways(grid.tp, grid.expert_tp))
    alone = [one for one in biases if stands_alone(one) or not one_product(shard.recipe, shard.model, _beside(one))]
    launched = way(shard.recipe, shard.model, "bias").kernels[1] * len(alone)
    return Passes(Work(), Work(stream_s=found.backward.stream_s, kernels=launched))


def _beside(bias: Weight) -> str:
    """The word of the product that has a bias."""
    return "gate_up" if bias.name == "gate bias" else "qkv"


def tensors(shard: Shard, kind: LayerKind) -> tuple[Weight, ...]:
    """All weights of a layer."""
    return layer_weights(shard.model, kind.stored)


def stands_alone(weight: Weight) -> bool:
    """Whether a weight is a tensor of its own."""
    return weight.name.removesuffix(" bias") not in JOINT
