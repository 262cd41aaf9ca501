"""Kernel work of what autograd adds up: both ways of a residual stream, and biases' gradients.

In passes over activations, forward and backward:

    residual   addition (3); backward the gradients of both ways are read, and their sum written (3), of which one that
               is added inside the norm's backward pass reads the other way's gradient alone (1)
    bias       backward the gradient of what the layer gives is read once more (1), a kernel for each layer

Software that compiles layers as a whole does both inside other kernels (`Recipe.fused_sums`).

Sources: PyTorch, torch/csrc/autograd/input_buffer.cpp (accumulate), for gradients that meet; tools/autograd/
derivatives.yaml (addmm: the bias is expanded, its gradient summed); Megatron-LM, megatron/model/fused_bias_dropout.py
and fused_bias_gelu.py, whose biases have their gradients summed by autograd too.
"""

from __future__ import annotations

from lockstep.kernels.clock import Work
from lockstep.kernels.shard import Passes, Shard
from lockstep.workload import LayerKind, Weight, layer_weights

JOINT = {"key": "query", "value": "query", "gate": "up"}
"""Matrices that are one tensor with another."""


def residual_sums(shard: Shard) -> Passes:
    """Two residual additions and what becomes of their gradients."""
    elements = shard.loose_tokens * shard.model.hidden
    if shard.recipe.fused_sums:
        return shard.elementwise(elements, 6.0, 2.0, kernels=2)
    return shard.elementwise(elements, 6.0, 6.0, kernels=2)


def bias_sums(shard: Shard, kind: LayerKind) -> Passes:
    """Sums over tokens that give the gradients of biases."""
    if shard.recipe.fused_sums or shard.recipe.adapters is not None:
        return Passes(Work(), Work())
    found, grid = Passes(Work(), Work()), shard.grid
    for bias in tensors(shard, kind):
        if bias.name.endswith(" bias") and bias.category in ("attention", "mlp"):
            rows = shard.loose_tokens if bias.cut == "none" else shard.tokens
            found += shard.elementwise(rows * bias.elems / bias.ways(grid.tp, grid.expert_tp), 0.0, 1.0)
    launched = sum(stands_alone(one) for one in tensors(shard, kind) if one.name.endswith(" bias"))
    return Passes(Work(), Work(stream_s=found.backward.stream_s, kernels=launched))


def tensors(shard: Shard, kind: LayerKind) -> tuple[Weight, ...]:
    """All weights of a layer."""
    return layer_weights(shard.model, kind.stored)


def stands_alone(weight: Weight) -> bool:
    """Whether a weight is a tensor of its own."""
    return weight.name.removesuffix(" bias") not in JOINT
