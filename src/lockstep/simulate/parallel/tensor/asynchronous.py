"""Asynchronous tensor parallelism of PyTorch: each collective in pieces beside its own product, one piece per rank.

    gather       the product over a rank's own piece runs first, beside it pieces of the others arrive
    reduction    pieces for others are computed first, and leave while the rank's own is computed; then t of them are
                 added, which reads all T h elements once and writes T h / t

Of a collective of X seconds beside a product of C seconds, max(0, X - C (t - 1)/t) is exposed: other products of the
layer hide nothing, so the narrow ones of attention decide. t ranks, T tokens, h hidden. A layer has a pair of products
for attention and one for feed-forward; those of experts are not of the pattern that the compiler cuts. Backward, they
are the products that give gradients of inputs, as long as forward. What is reduced there is a sum of several products
(of queries, keys and values, of a gate and what it multiplies), which is not of the pattern: nothing hides it.

Sources: PyTorch, torch/_inductor/fx_passes/micro_pipeline_tp.py (patterns, _find_producer_matmul) and
torch/distributed/_symmetric_memory (_pipelined_all_gather_and_consume, _pipelined_produce_and_all2all, and the sum in
_fused_matmul_reduce_scatter_impl).
"""

from __future__ import annotations

from collections.abc import Sequence

from lockstep.base.types.arrays import Number, Whole
from lockstep.simulate.parallel.piece import Flow, Piece


def pieces(
    moved: tuple[Flow, Flow], ranks: Whole, pairs: Sequence[tuple[Number, Number]], backward: bool = False
) -> tuple[Piece, ...]:
    """The traffic of a pass of a layer: for each pair, a gather beside its product, and forward a reduction beside its
    own.

    `moved` are the collectives of all pairs together, `pairs` the seconds of both products of each.
    """
    share, others = 1.0 / len(pairs), (ranks - 1) / ranks
    hidden = moved[:1] if backward else moved
    found = tuple(
        Piece("tp", others * seconds, beside=(flow * share,))
        for pair in pairs
        for flow, seconds in zip(hidden, pair, strict=not backward)
    )
    return (*found, Piece("tp", after=moved[1:])) if backward else found
