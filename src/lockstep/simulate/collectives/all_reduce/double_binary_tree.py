"""All-reduce on two complementary binary trees, half of the buffer each: tree latency, full bandwidth (NCCL's "tree").

    time = 2 (D + w (m - 1)) alpha + (D s + w (S/2 - s)) (2 beta + gamma),   s = S/(2m),  w = min(2, n - 1)
    D = 2 floor(log2 n), one less when n is a power of two;  about 4 log2 n alpha + 2 S beta for large S
m segments per half; without `segments` the best whole number is taken. Every rank is inner in at most one of the trees
and uses its port in alternate slots for the two, so neither slows the other.

Source: P. Sanders, J. Speck, J. L. Traff, Parallel Computing 35 (2009); derivation in `collectives.trees`.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.types.arrays import Array, Number, Whole
from lockstep.base.types.plain import Json
from lockstep.simulate.collectives.cost import Counts, LinkLike, Terms
from lockstep.simulate.collectives.registry import Algorithm, register
from lockstep.simulate.collectives.rounds import Rounds, cut
from lockstep.simulate.collectives.shares import Split, whole_choice
from lockstep.simulate.collectives.trees import (
    Tree,
    best_segments,
    complementary_places,
    reduce_and_broadcast,
    write_reduce_and_broadcast,
)


def settle(ranks: Number, size_B: Number, link: LinkLike, split: Split, segments: Number | None = None) -> Json:
    """The requested number of segments per half, or the best."""
    half_B = split.largest_B(size_B, 2)
    return {
        "segments": best_segments(ranks, half_B, link, split)
        if segments is None
        else whole_choice("segments", segments)
    }


def terms(ranks: Number, size_B: Number, link: LinkLike, split: Split, segments: Number | None = None) -> Terms:
    """Pipelined reduce + broadcast of the larger half."""
    segments = settle(ranks, size_B, link, split, segments)["segments"]
    return reduce_and_broadcast(ranks, split.largest_B(size_B, 2), segments, split)


def counts(ranks: Number, size_B: Number, link: LinkLike, split: Split, segments: Number | None = None) -> Counts:
    """Every segment goes up and down each of n - 1 edges of its tree."""
    segments = settle(ranks, size_B, link, split, segments)["segments"]
    return Counts(4 * (ranks - 1) * segments, 2 * (ranks - 1) * size_B, (ranks - 1) * size_B)


def write(rounds: Rounds, members: Array, start: Whole, stop: Whole, segments: int = 1) -> None:
    """The first half on the tree in member order, the second on its complement."""
    ranks = members.shape[1]
    edges = cut(start, stop, 2)
    trees = [
        Tree(np.arange(ranks), edges[:, 0], edges[:, 1]),
        Tree(complementary_places(ranks), edges[:, 1], edges[:, 2]),
    ]
    write_reduce_and_broadcast(rounds, members, trees, int(segments))


DOUBLE_BINARY_TREE = register(
    Algorithm(
        op="all-reduce",
        name="double-binary-tree",
        terms=terms,
        counts=counts,
        formula="2(D+w(m-1)) alpha + (D S/2m + w S/2 (1-1/m)) (2 beta + gamma), D = 2 floor(log2 n) - [n = 2^k], w = 2",
        source="Sanders, Speck & Traff 2009",
        deployed=True,
        message_count="4(n-1) of p/2",
        choices=("segments",),
        examples=tuple({"segments": count} for count in (1, 2, 5)),
        settle=settle,
        pieces=lambda ranks, segments=1, **choices: 2 * int(segments),
        write=write,
    )
)
