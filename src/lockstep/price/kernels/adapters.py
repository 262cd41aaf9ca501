"""Kernel work of adapters beside a layer's frozen matrices, and of bringing quantised ones to half precision.

What surrounds the products with A and B is a slot, `adapters` of `describe/stacks/ways.toml`, over what the frozen
matrix gives; its parts are over what that reads. Products with a rank are far from the memory's rate: THIN.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lockstep.base.types.arrays import Number
from lockstep.describe.stacks import Way
from lockstep.describe.workload import Adapters, LayerKind, Weight, layer_weights
from lockstep.describe.workload.adapters import ROWS
from lockstep.price.kernels.clock import Work
from lockstep.price.kernels.methods import method_work
from lockstep.price.kernels.shard import Passes, Shard
from lockstep.price.kernels.slots import Parts, way_work
from lockstep.price.layout import quantised, way

THIN = 1.36
"""Times as long as a stream of its bytes that a product with a rank took on H100, in the median of 62 alone
(h100_kernels.csv)."""


def adapter_work(shard: Shard, adapters: Adapters, kind: LayerKind) -> Passes:
    """The two products of every adapter of a layer, and adding what they give to what the frozen matrix gives."""
    parts, around = Passes(Work(), Work()), way(shard.recipe, shard.model, "adapters")
    for weight in layer_weights(shard.model, kind.stored):
        if adapters.sums(weight):
            parts += _added(shard, adapters, weight)
        elif adapters.adapts(weight):
            rows, count = _passing(shard, weight)
            if adapters.method.name in ("lora", "vera"):
                parts += _beside(shard, adapters, weight, around)
            parts += method_work(shard, adapters, weight, rows, count)
    return parts


def _passing(shard: Shard, weight: Weight) -> tuple[Number, Number]:
    """Rows that pass a matrix, and how many matrices of it a rank has."""
    if weight.cut != "expert" or not shard.model.experts:
        return shard.tokens, 1
    count = weight.copies / shard.grid.ep
    return shard.routed_tokens * shard.model.experts.top_k / count, count


def _beside(shard: Shard, adapters: Adapters, weight: Weight, around: Way) -> Passes:
    """The products with B and, if the adapter has one of its own, A, and what surrounds them."""
    inputs, outputs = weight.shape
    (rows, count), ways = _passing(shard, weight), weight.ways(shard.grid.tp, shard.grid.expert_tp)
    frozen, rank = adapters.method.gradients == 1, adapters.rank_of(weight)
    k, n = (inputs / ways, outputs) if weight.name in ROWS else (inputs, outputs / ways)
    again, read = around.numbers.get("again", 0.0), rows * k * count
    parts: Parts = {"inputs": (read, 1), "dropout": (read, adapters.dropout_frac > 0)}
    found = _product(shard, (rows, n, rank, count), again, frozen)
    if adapters.joins(weight):
        return found + way_work(shard.clock, around, rows * n * count)
    found += _product(shard, (rows, rank, k, count), again, frozen)
    return found + way_work(shard.clock, around, rows * n * count, parts=parts)


def _added(shard: Shard, adapters: Adapters, weight: Weight) -> Passes:
    """The sum of all experts' matrices with A B, one product that reads them (baddbmm); backward the gradient of the
    sum, as of trained matrices, and those of A and B.
    """
    clock, grid = shard.clock, shard.grid
    inputs, outputs = weight.shape
    ways, count = weight.ways(grid.tp, grid.expert_tp), weight.copies / grid.ep
    k, n = (inputs / ways, outputs) if weight.name == "expert down" else (inputs, outputs / ways)
    rank, rows = adapters.rank_of(weight), shard.expert_rows / count
    made = clock.matmul(k, n, rank, count) + clock.stream(k * n * count * clock.element_B, kernels=0)
    gradients = clock.matmul(k, rank, n, count) + clock.matmul(rank, n, k, count)
    return Passes(made, clock.matmul(k, n, rows, count) + gradients)


def _product(shard: Shard, sides: tuple[Number, Number, Number, Number], again: float, frozen: bool = False) -> Passes:
    """Products of so many rows, columns and inner numbers, in so many copies, whose matrix is maybe frozen."""
    rows, columns, inner, count = sides
    size_B = (rows * inner + inner * columns + rows * columns) * count * shard.clock.element_B
    least_s = shard.clock.stream(shard.clock.instruction_bound(THIN) * size_B).stream_s
    found = shard.product(*sides) if frozen else shard.trained_product(*sides)
    backward = _at_least(found.backward, (1.0 if frozen else 2.0) * least_s)
    if again:
        backward += again * _at_least(shard.clock.matmul(*sides), least_s)
    return Passes(_at_least(found.forward, least_s), backward)


def _at_least(product: Work, seconds: Number) -> Work:
    """The work of products that take no less than `seconds`."""
    return replace(product, matmul_s=np.maximum(product.matmul_s, seconds))


def restored_work(shard: Shard, kind: LayerKind) -> Passes:
    """Quantised matrices of a layer brought to half precision, once in either pass: read narrow, written wide."""
    if not shard.recipe.restores:
        return Passes(Work(), Work())
    grid = shard.grid
    blocks = quantised(shard.recipe, shard.model, kind.stored)
    elems: Number = sum(one.per_rank_elems(grid.tp, grid.ep, grid.expert_tp) for one in blocks)
    once = shard.clock.stream((shard.recipe.base_B + shard.clock.element_B) * elems, kernels=len(blocks))
    return Passes(once, once)
