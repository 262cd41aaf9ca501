"""Scatter along a binomial tree: whoever holds a run of shares hands its upper half on, until every rank holds its own.

    time = ceil(log2 n) alpha + (S - c) beta,   c = the root's own share = S/n
n ranks (any), S bytes at the root. The holder keeps the larger half, so the root sends in every round, everything but
its own share, and is the last to finish.

Source: R. Thakur, R. Rabenseifner, W. Gropp, IJHPCA 19 (2005), on broadcast; E. Chan et al., CCPE 19 (2007), section 4.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.types.arrays import Array, Number, Whole
from lockstep.simulate.collectives.cost import Counts, LinkLike, Terms
from lockstep.simulate.collectives.registry import Algorithm, register
from lockstep.simulate.collectives.rounds import Rounds, cut
from lockstep.simulate.collectives.shares import Split, ceil_log2


def terms(ranks: Number, size_B: Number, link: LinkLike, split: Split) -> Terms:
    """The root's messages: ceil(log2 n), all but its own share."""
    return Terms(ceil_log2(ranks), size_B - split.largest_B(size_B, ranks))


def counts(ranks: Number, size_B: Number, link: LinkLike, split: Split) -> Counts:
    """n - 1 messages."""
    return Counts(ranks - 1, hops_B(size_B, ranks, split))


def hops_B(size_B: Number, ranks: Number, split: Split) -> Number:
    """Bytes over all edges of the tree: each share times the edges it crosses."""
    if split.element_B == 0.0:
        return size_B * (hops(ranks) / ranks)
    num_elems = split.elements(size_B)
    each = np.floor(num_elems / ranks)
    return (each * hops(ranks) + leading_hops(ranks, num_elems - each * ranks)) * split.element_B


def hops(ranks: Number) -> Number:
    """Edges crossed by all n shares: h(n) = floor(n/2) + h(floor(n/2)) + h(ceil(n/2)).

    It is the number of ones in binary 0 .. n - 1 (OEIS A000788), counted bit by bit here.
    """
    ranks = np.asarray(ranks, dtype=np.float64)
    total = 0.0 * ranks
    for bit in range(int(np.max(ceil_log2(ranks), initial=0))):
        whole, rest = np.divmod(ranks, 2.0 ** (bit + 1))
        total = total + whole * 2.0**bit + np.maximum(rest - 2.0**bit, 0.0)
    return total


def leading_hops(ranks: Number, count: Number) -> Number:
    """Edges crossed by the first `count` of n shares: walk down the halves that hold share `count`."""
    ranks, count = np.broadcast_arrays(np.asarray(ranks, dtype=np.float64), np.asarray(count, dtype=np.float64))
    total = 0.0 * ranks
    for _ in range(int(np.max(ceil_log2(ranks), initial=0))):
        lower = np.ceil(ranks / 2)
        upper = count > lower
        total = total + np.where(upper, hops(lower) + count - lower, 0.0)
        ranks, count = np.where(upper, ranks - lower, lower), np.where(upper, count - lower, count)
    return total


def halvings(ranks: int) -> list[tuple[Array, Array, Array]]:
    """Rounds of (first, middle, end), each [runs]: the holder of shares first .. end hands middle .. end to middle."""
    rounds = []
    runs = [(0, ranks)]
    while any(end - first > 1 for first, end in runs):
        split_runs = [(first, (first + end + 1) // 2, end) for first, end in runs if end - first > 1]
        rounds.append(tuple(np.array(column) for column in zip(*split_runs, strict=True)))
        runs = [run for first, middle, end in split_runs for run in ((first, middle), (middle, end))]
    return rounds  # type: ignore[return-value]


def write(rounds: Rounds, members: Array, start: Whole, stop: Whole) -> None:
    """All holders hand on the upper half of their run, round by round."""
    edges = cut(start, stop, members.shape[1])
    for first, middle, end in halvings(members.shape[1]):
        rounds.messages(members[:, first], members[:, middle], edges[:, middle], edges[:, end])


BINOMIAL = register(
    Algorithm(
        op="scatter",
        name="binomial",
        terms=terms,
        counts=counts,
        formula="ceil(log2 n) alpha + (n-1)/n S beta",
        source="Thakur et al. 2005",
        write=write,
    )
)
