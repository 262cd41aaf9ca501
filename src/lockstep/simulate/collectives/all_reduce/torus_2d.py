"""All-reduce on a two-dimensional torus: rings along the rows, then along the columns, then back.

    time = 2 (r - 1 + n/r - 1) alpha + (2 beta + gamma) (n - 1)/n S,   r ranks per row (whole elements: ceil shares)
r = `row_ranks`, default the largest divisor of n up to sqrt n. Rows and columns take turns, so one port suffices. With
r = 1 it is the ring: a prime number of ranks has no torus.

Source: H. Mikami et al., "Massively distributed SGD: ImageNet/ResNet-50 training in a flash", arXiv 1811.05233 (2018);
C. Ying et al., "Image classification at supercomputer scale", arXiv 1811.06992 (2018).
"""

from __future__ import annotations

from lockstep.base.types.arrays import Number
from lockstep.base.types.plain import Json
from lockstep.simulate.collectives.all_reduce import hierarchical
from lockstep.simulate.collectives.cost import Counts, LinkLike, Terms
from lockstep.simulate.collectives.registry import Algorithm, register
from lockstep.simulate.collectives.shares import Split, square_divisor


def settle(ranks: Number, size_B: Number, link: LinkLike, split: Split, row_ranks: Number | None = None) -> Json:
    """The two-level hierarchy with rings at both levels."""
    row = square_divisor(ranks) if row_ranks is None else row_ranks
    return hierarchical.settle(ranks, size_B, link, split, levels=(row,), inner="ring", outer="ring")


def terms(ranks: Number, size_B: Number, link: LinkLike, split: Split, row_ranks: Number | None = None) -> Terms:
    """Reduce-scatter along rows, all-reduce along columns, all-gather along rows."""
    levels = settle(ranks, size_B, link, split, row_ranks)["levels"]
    return hierarchical.terms(ranks, size_B, link, split, levels=levels)


def counts(ranks: Number, size_B: Number, link: LinkLike, split: Split, row_ranks: Number | None = None) -> Counts:
    """As the hierarchy."""
    levels = settle(ranks, size_B, link, split, row_ranks)["levels"]
    return hierarchical.counts(ranks, size_B, link, split, levels=levels)


TORUS_2D = register(
    Algorithm(
        op="all-reduce",
        name="torus-2d",
        terms=terms,
        counts=counts,
        formula="2(r + n/r - 2) alpha + (2 beta + gamma)(n-1)/n S",
        source="Mikami et al. 2018",
        message_count="2n(r-1) of p/r + 2n(n/r-1) of p/n",
        dominated_by="hierarchical",
        choices=("row_ranks",),
        examples=({"row_ranks": 3},),
        settle=settle,
        pieces=hierarchical.pieces,
        write=hierarchical.write,
    )
)
