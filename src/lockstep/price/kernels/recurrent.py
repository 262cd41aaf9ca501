"""Kernel work of a recurrent mixer on one rank between its projections: its short convolution and its scan in chunks.

No measured times of such kernels are known here: products within chunks run at the rate of any matrix product, the
rest as fast as memory. Symbols and formulas: `describe/workload/recurrent/`.
"""

from __future__ import annotations

from functools import reduce
from operator import add

from lockstep.describe.workload import Recurrent
from lockstep.price.kernels.clock import Work
from lockstep.price.kernels.shard import Passes, Shard


def recurrent_core(shard: Shard, mixer: Recurrent) -> Passes:
    """Scan, convolution and norms, none of which has a weight matrix."""
    chunk, products = mixer.products(shard.recipe.passed_seq)
    chunks = shard.tokens / chunk
    each = [
        shard.trained_product(one.m, one.n, one.k, chunks * one.copies / shard.grid.tp) for one in products
    ] + [
        shard.elementwise(shard.tokens * one.elems / shard.grid.tp, one.forward, one.backward)
        for one in mixer.streams()
    ]  # fmt: skip
    return reduce(add, each, Passes(Work(), Work()))
