"""All-reduce on a binary tree in segments: reduce to the root, then broadcast; latency of a tree, about 4 S beta.

    time = 2 (D + w (m - 1)) alpha + (D s + w (S - s)) (2 beta + gamma),   s = S/m,  w = min(2, n - 1)
    D = 2 floor(log2 n), one less when n is a power of two
m segments; without `segments` the best whole number is taken. m = 1 is the unpipelined binary tree. On one port a
parent receives from two children, so a single tree reaches half of the bandwidth of two (see double-binary-tree).

Source: P. Sanders, J. Speck, J. L. Traff, Parallel Computing 35 (2009), section 2; derivation in `collectives.trees`.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.types.arrays import Array, Number, Whole
from lockstep.base.types.plain import Json
from lockstep.simulate.collectives.cost import Counts, LinkLike, Terms
from lockstep.simulate.collectives.registry import Algorithm, register
from lockstep.simulate.collectives.rounds import Rounds
from lockstep.simulate.collectives.shares import Split, whole_choice
from lockstep.simulate.collectives.trees import Tree, best_segments, reduce_and_broadcast, write_reduce_and_broadcast


def settle(ranks: Number, size_B: Number, link: LinkLike, split: Split, segments: Number | None = None) -> Json:
    """The requested number of segments, or the best."""
    return {
        "segments": best_segments(ranks, size_B, link, split)
        if segments is None
        else whole_choice("segments", segments)
    }


def terms(ranks: Number, size_B: Number, link: LinkLike, split: Split, segments: Number | None = None) -> Terms:
    """Pipelined reduce + broadcast of the whole buffer."""
    return reduce_and_broadcast(ranks, size_B, settle(ranks, size_B, link, split, segments)["segments"], split)


def counts(ranks: Number, size_B: Number, link: LinkLike, split: Split, segments: Number | None = None) -> Counts:
    """Every segment goes up and down each of n - 1 edges."""
    segments = settle(ranks, size_B, link, split, segments)["segments"]
    return Counts(2 * (ranks - 1) * segments, 2 * (ranks - 1) * size_B, (ranks - 1) * size_B)


def write(rounds: Rounds, members: Array, start: Whole, stop: Whole, segments: int = 1) -> None:
    """One tree in member order."""
    write_reduce_and_broadcast(rounds, members, [Tree(np.arange(members.shape[1]), start, stop)], int(segments))


PIPELINED_TREE = register(
    Algorithm(
        op="all-reduce",
        name="pipelined-tree",
        terms=terms,
        counts=counts,
        formula="2(D+w(m-1)) alpha + (D S/m + w S(1-1/m)) (2 beta + gamma), D = 2 floor(log2 n) - [n = 2^k], w = 2",
        source="Sanders, Speck & Traff 2009",
        message_count="2(n-1) of p",
        dominated_by="double-binary-tree",
        choices=("segments",),
        examples=tuple({"segments": count} for count in (1, 2, 5)),
        settle=settle,
        pieces=lambda ranks, segments=1, **choices: int(segments),
        write=write,
    )
)
