"""Kernel work of a recurrent mixer on one rank: its projections, its short convolution and its scan in chunks.

No measured times of such kernels are known here: products within chunks run at the rate of any matrix product, the
rest as fast as memory. Symbols and formulas: `workload/recurrent/`.
"""

from __future__ import annotations

from functools import reduce
from operator import add

from lockstep.kernels.clock import Work
from lockstep.kernels.shard import Passes, Shard
from lockstep.types.arrays import Number
from lockstep.workload import Recurrent, Weight
from lockstep.workload.adapters import ROWS


def matrices(shard: Shard, mixer: Recurrent) -> tuple[list[Weight], list[Weight]]:
    """(matrices that read the layer's input, which run as one product; all others)."""
    found = [one for one in mixer.weights(shard.model.hidden) if one.is_matrix and one.category == "recurrent"]
    first = [one for one in found if one.name.startswith("recurrent in")]
    return first, [one for one in found if one not in first]


def first_width(shard: Shard, mixer: Recurrent) -> Number:
    """Columns on a rank of what reads the layer's input."""
    total: Number = sum(one.shape[1] / one.ways(shard.grid.tp) for one in matrices(shard, mixer)[0])
    return total


def recurrent_projections(shard: Shard, mixer: Recurrent) -> Passes:
    """Products with weights."""
    parts = shard.product(shard.tokens, first_width(shard, mixer), shard.model.hidden)
    for one in matrices(shard, mixer)[1]:
        inputs, outputs = one.shape
        ways = one.ways(shard.grid.tp)
        k, n = (inputs / ways, outputs) if one.name in ROWS else (inputs, outputs / ways)
        parts += shard.product(shard.tokens, n, k)
    return parts


def recurrent_core(shard: Shard, mixer: Recurrent) -> Passes:
    """Scan, convolution and norms, none of which has a weight matrix."""
    chunk, products = mixer.products(shard.recipe.seq)
    chunks = shard.tokens / chunk
    each = [
        shard.trained_product(one.m, one.n, one.k, chunks * one.copies / shard.grid.tp) for one in products
    ] + [
        shard.elementwise(shard.tokens * one.elems / shard.grid.tp, one.forward, one.backward)
        for one in mixer.streams()
    ]  # fmt: skip
    return reduce(add, each, Passes(Work(), Work()))
