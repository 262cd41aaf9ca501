"""Kernel work of what autograd adds up: both ways of a residual stream, all readers of a norm, and biases' gradients.

In passes over activations, forward and backward:

    inputs     backward the gradients of what queries, keys, values, a gate and its other half read, where each is a
               product of its own: every one but the first of each block is added (3), compiled within the norm's
               kernel, which reads it (1); under autocast: `autocast.py`

Residual streams and biases are slots (`residual` and `bias` of `stacks/ways.toml`).

Source: huggingface/transformers, models/llama/modeling_llama.py (LlamaAttention and LlamaMLP), for products of their
own; PyTorch, torch/csrc/autograd/input_buffer.cpp (accumulate).
"""

from __future__ import annotations

import numpy as np

from lockstep.kernels.autocast import casts
from lockstep.kernels.clock import Work
from lockstep.kernels.shard import Passes, Shard
from lockstep.kernels.slots import slot_work
from lockstep.layout import way
from lockstep.workload import LayerKind, Weight, layer_weights

JOINT = {"key": "query", "value": "query", "gate": "up"}
"""Matrices that are one tensor with another."""
SUM, READ = 3.0, 1.0
"""Passes of a sum of two gradients, and of reading one more in a kernel that a compiler writes for what follows."""


def input_sums(shard: Shard, kind: LayerKind) -> Passes:
    """Sums of the gradients of what several products read."""
    model, recipe = shard.model, shard.recipe
    block = model.mlp if kind.block == "dense" else model.experts
    if not recipe.habits.own_projections or block is None or not block.gated:
        return Passes(Work(), Work())
    count = 2 * (kind.attends and not recipe.habits.joint_qkv) + (kind.block == "dense")
    numbers = shard.loose_tokens * model.hidden
    if recipe.software.compiled:
        found = shard.elementwise(numbers, 0.0, READ * count, kernels=0)
    else:
        found = shard.operations(numbers, 0.0, SUM * count, 0, count)
    return Passes(Work(), found.backward.when(np.logical_not(casts(shard))))


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
