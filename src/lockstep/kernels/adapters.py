"""Kernel work of adapters beside a layer's frozen matrices, and of bringing quantised ones to half precision."""

from __future__ import annotations

from lockstep.kernels.clock import Work
from lockstep.kernels.shard import Passes, Shard
from lockstep.types.arrays import Number
from lockstep.workload import Adapters, LayerKind, is_linear, layer_weights
from lockstep.workload.adapters import ROWS


def adapter_work(shard: Shard, adapters: Adapters, kind: LayerKind) -> Passes:
    """The two products of every adapter of a layer, and adding what they give to what the frozen matrix gives.

    PEFT's kernels, one after another, cast inputs to the adapters' fp32, scale, add and cast back: 4 and 13 passes of
    half-precision elements over inputs and outputs forward, 8 and 7 backward (peft/tuners/lora/layer.py, Linear). Under
    autocast the products are in half precision all the same: 6 and 5 forward, 9 (casts there and back, a sum) and 2. In
    half precision they only scale and add: 5 over outputs forward, 2 over outputs and 3 over inputs backward
    (NVIDIA-NeMo/Megatron-Bridge@0191fc5, src/megatron/bridge/peft/lora_layers.py).
    """
    model, grid, parts = shard.model, shard.grid, Passes(Work(), Work())
    for weight in layer_weights(model, kind.stored):
        if not adapters.adapts(weight):
            continue
        inputs, outputs = weight.shape
        rows, ways = shard.tokens, weight.ways(grid.tp, grid.expert_tp)
        count: Number = 1
        if weight.cut == "expert" and model.experts:
            count = weight.copies / grid.ep
            rows = shard.routed_tokens * model.experts.top_k / count
        by_rows, own = weight.name in ROWS, not adapters.joins(weight)
        k, n = (inputs / ways, outputs) if by_rows else (inputs, outputs / ways)
        if own:
            parts += shard.trained_product(rows, adapters.rank, k, count)
        parts += shard.trained_product(rows, n, adapters.rank, count)
        if adapters.dropout_frac and own:
            # Reads and writes elements and a mask of one byte each, in either pass.
            width = 1.0 if shard.recipe.half_adapters else 2.0
            parts += shard.elementwise(rows * k * count, 2.0 * width + 0.5, 2.0 * width + 0.5)
        if shard.recipe.fused_adapters:
            parts += shard.elementwise(rows * n * count, 3.0, 0.0)
        elif shard.recipe.half_adapters:
            parts += shard.operations(rows * n * count, 5.0, 2.0, 2 * own, 2 * own)
            if own:
                parts += shard.operations(rows * k * count, 0.0, 3.0, there=0)
        elif shard.recipe.autocast:
            parts += shard.elementwise(rows * n * count, 5.0, 2.0, kernels=2)
            parts += shard.elementwise(rows * k * count, 6.0, 9.0, kernels=3)
        else:
            parts += shard.elementwise(rows * n * count, 13.0, 7.0, kernels=4)
            parts += shard.elementwise(rows * k * count, 4.0, 8.0, kernels=2)
    return parts


def restored_work(shard: Shard, kind: LayerKind) -> Passes:
    """Quantised matrices of a layer brought to half precision, once in either pass: read narrow, written wide."""
    if shard.recipe.base is None:
        return Passes(Work(), Work())
    grid = shard.grid
    blocks = [one for one in layer_weights(shard.model, kind.stored) if is_linear(one)]
    elems: Number = sum(one.per_rank_elems(grid.tp, grid.ep, grid.expert_tp) for one in blocks)
    once = shard.clock.stream((shard.recipe.base_B + shard.clock.element_B) * elems, kernels=len(blocks))
    return Passes(once, once)
