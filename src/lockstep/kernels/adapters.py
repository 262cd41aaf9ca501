"""Kernel work of adapters beside a layer's frozen matrices, and of bringing quantised ones to half precision.

Passes over what a matrix gives (outputs) and reads (inputs), forward and backward, in units of half-precision elements,
so that one in fp32 counts two. All are kernels of PyTorch, one after another:

    fp32       PEFT's without autocast: inputs converted (3) and read wide (1); what comes out written wide (1), scaled
               (4), added (5), converted back (3). Backward: converted (3), for the frozen matrix back (3), scaled (4),
               read wide twice (2); inputs written and read wide (2), converted (3), added to the frozen matrix's (3)
    autocast   inputs converted there and back (6), outputs scaled (2) and added (3); backward scaled (2), inputs
               converted back and there (6), added (3)
    half       nothing is converted: outputs scaled and added (5), backward 2 and 3. So do PEFT's layers on quantised
               matrices under autocast (those of bitsandbytes in four bits copy what comes out first, 2)
    fused      outputs added (3), backward inputs added (3). What A gives is computed again, as is its gradient, which
               makes two products more in the backward pass

A dropout before A reads and writes its inputs and a mask of one byte each, in fp32 where these were converted; fused
kernels keep no mask, but compare what came out with zero (1.5) and multiply by the result (2.5). Dropouts, products of
two formats and products with a rank are far from the memory's rate: DROPOUT, MASKED and THIN.

Sources: huggingface/peft 0.13, peft/tuners/lora/layer.py (Linear), bnb.py (Linear4bit) and gptq.py (QuantLinear);
NVIDIA-NeMo/Megatron-Bridge@0191fc5, src/megatron/bridge/peft/lora_layers.py; foundation-model-stack/fms-acceleration,
plugins/fused-ops-and-kernels, fused_ops/unsloth_lora/bnb/fast_lora.py (LoRA_QKV and LoRA_W).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lockstep.kernels.clock import OPERATIONS, WIDENED, Work
from lockstep.kernels.shard import Passes, Shard
from lockstep.layout import Recipe
from lockstep.types.arrays import Number
from lockstep.workload import Adapters, LayerKind, is_linear, layer_weights
from lockstep.workload.adapters import ROWS

Pair = tuple[float, float]
MASK = 0.5
"""Passes in which a mask of one byte each is read or written."""


@dataclass(frozen=True, slots=True)
class Around:
    """Passes around the products of an adapter, forward and backward."""

    outputs: Pair
    inputs: Pair
    kernels: tuple[int, int, int, int]
    """Forward and backward over outputs, then over inputs."""
    dropout: Pair = (2.0 + MASK, 2.0 + MASK)
    widened: tuple[Pair, Pair] = ((0.0, 0.0), (0.0, 0.0))
    """Of these, copies to fp32 (3 each), which take longer than their bytes, of outputs and of inputs."""
    again: bool = False
    """Whether what A gives, and the gradient of that, are computed once more."""

    @property
    def dropout_takes(self) -> Pair:
        """Passes that a dropout takes as long as."""
        there, back = self.dropout
        multiplied = 2.0 + MASK if self.again else 0.0
        return there * DROPOUT / OPERATIONS, back + multiplied * (MASKED / OPERATIONS - 1.0)


DROPOUT, MASKED = 1.2, 2.24
"""Times as long as a stream of their bytes that a dropout and numbers times a mask took on H100 (h100_kernels.csv)."""
THIN = 1.36
"""The same of a product with a rank, in the median of 62 alone."""
WIDE_DROPOUT = 4.0 + MASK, 4.0 + MASK
KINDS = {
    "fp32": Around((13.0, 12.0), (4.0, 8.0), (4, 4, 2, 2), WIDE_DROPOUT, ((0.0, 1.0), (1.0, 0.0))),
    "autocast": Around((5.0, 2.0), (6.0, 9.0), (2, 2, 3, 3), WIDE_DROPOUT, ((0.0, 0.0), (1.0, 1.0))),
    "half": Around((5.0, 2.0), (0.0, 3.0), (2, 2, 0, 1)),
    "copied": Around((7.0, 2.0), (0.0, 3.0), (3, 1, 0, 1)),
    "fused": Around((3.0, 0.0), (0.0, 3.0), (1, 0, 0, 1), (2.0 + MASK, 4.0), again=True),
}
COPYING = ("nf4", "nf4-single")
"""Bases of bitsandbytes in four bits."""


def around(recipe: Recipe) -> Around:
    """What runs around the products of an adapter."""
    if recipe.habits.fused_adapters:
        return KINDS["fused"]
    if recipe.habits.half_adapters:
        return KINDS["half"]
    if not recipe.habits.autocast:
        return KINDS["fp32"]
    return KINDS["autocast" if recipe.base is None else "copied" if recipe.base in COPYING else "half"]


def adapter_work(shard: Shard, adapters: Adapters, kind: LayerKind) -> Passes:
    """The two products of every adapter of a layer, and adding what they give to what the frozen matrix gives."""
    model, grid, parts, kernels = shard.model, shard.grid, Passes(Work(), Work()), around(shard.recipe)
    for weight in layer_weights(model, kind.stored):
        if not adapters.adapts(weight):
            continue
        inputs, outputs = weight.shape
        rows, ways = shard.tokens, weight.ways(grid.tp, grid.expert_tp)
        count: Number = 1
        if weight.cut == "expert" and model.experts:
            count = weight.copies / grid.ep
            rows = shard.routed_tokens * model.experts.top_k / count
        by_rows = weight.name in ROWS
        k, n = (inputs / ways, outputs) if by_rows else (inputs, outputs / ways)
        parts += _products(shard, adapters.rank, (rows, k, n, count), not adapters.joins(weight), kernels.again)
        outputs_take, inputs_take = _taken(shard, kernels)
        parts += shard.operations(rows * n * count, *outputs_take, *kernels.kernels[:2])
        if not adapters.joins(weight):
            parts += shard.operations(rows * k * count, *inputs_take, *kernels.kernels[2:])
            if adapters.dropout_frac:
                parts += shard.operations(rows * k * count, *kernels.dropout_takes)
    return parts


def _taken(shard: Shard, kernels: Around) -> tuple[Pair, Pair]:
    """Passes that what is around an adapter takes as long as, over outputs and over inputs."""
    slower = 3.0 * (shard.clock.instruction_bound(WIDENED) - 1.0)
    outputs, inputs = (
        (moved[0] + slower * many[0], moved[1] + slower * many[1])
        for moved, many in zip((kernels.outputs, kernels.inputs), kernels.widened, strict=True)
    )
    return outputs, inputs


def _products(shard: Shard, rank: int, sides: tuple[Number, Number, Number, Number], own: bool, again: bool) -> Passes:
    """The products with A, if it is an adapter's own, and B, of so many rows, inputs, outputs and copies."""
    rows, k, n, count = sides
    several = [(n, rank), (rank, k)] if own else [(n, rank)]
    parts = Passes(Work(), Work())
    for columns, inner in several:
        size_B = (rows * inner + inner * columns + rows * columns) * count * shard.clock.element_B
        least_s = shard.clock.stream(shard.clock.instruction_bound(THIN) * size_B).stream_s
        found = shard.trained_product(rows, columns, inner, count)
        parts += Passes(_at_least(found.forward, least_s), _at_least(found.backward, 2.0 * least_s))
        if again:
            parts += Passes(Work(), _at_least(shard.clock.matmul(rows, columns, inner, count), least_s))
    return parts


def _at_least(product: Work, seconds: Number) -> Work:
    """The work of products that take no less than `seconds`."""
    return replace(product, matmul_s=np.maximum(product.matmul_s, seconds))


def restored_work(shard: Shard, kind: LayerKind) -> Passes:
    """Quantised matrices of a layer brought to half precision, once in either pass: read narrow, written wide."""
    if shard.recipe.base is None:
        return Passes(Work(), Work())
    grid = shard.grid
    blocks = [one for one in layer_weights(shard.model, kind.stored) if is_linear(one)]
    elems: Number = sum(one.per_rank_elems(grid.tp, grid.ep, grid.expert_tp) for one in blocks)
    once = shard.clock.stream((shard.recipe.base_B + shard.clock.element_B) * elems, kernels=len(blocks))
    return Passes(once, once)
