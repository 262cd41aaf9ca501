"""All-reduce on two opposite rings, each with half of the buffer, through two ports per rank.

    time = 2 (n - 1) (alpha + c beta) + (n - 1) c gamma,   c = largest share of the larger half = S/(2n)
Every rank has a link to each neighbour and both run at the link's rate, so the bandwidth term is half of the ring's;
on one port there would be nothing to gain. Both ports reduce at the same time.

Source: N. P. Jouppi et al., "TPU v4", ISCA 2023 (bidirectional rings of a torus dimension).
"""

from __future__ import annotations

from lockstep.base.types.arrays import Array, Number, Whole
from lockstep.simulate.collectives.all_reduce import ring
from lockstep.simulate.collectives.cost import Counts, LinkLike, Terms
from lockstep.simulate.collectives.registry import Algorithm, register
from lockstep.simulate.collectives.rounds import Rounds, cut
from lockstep.simulate.collectives.shares import Split


def terms(ranks: Number, size_B: Number, link: LinkLike, split: Split) -> Terms:
    """The ring of the larger half."""
    return ring.terms(ranks, split.largest_B(size_B, 2), link, split)


def counts(ranks: Number, size_B: Number, link: LinkLike, split: Split) -> Counts:
    """Two rings."""
    larger_B = split.largest_B(size_B, 2)
    return ring.counts(ranks, larger_B, link, split) + ring.counts(ranks, size_B - larger_B, link, split)


def write(rounds: Rounds, members: Array, start: Whole, stop: Whole) -> None:
    """The first half forwards through the first port, the second half backwards through the second."""
    edges = cut(start, stop, 2)
    second = rounds.through(1)
    ring.write(rounds, members, edges[:, 0], edges[:, 1])
    ring.write(second, members, edges[:, 1], edges[:, 2], reverse=True)
    rounds.join(second)


BIDIRECTIONAL_RING = register(
    Algorithm(
        op="all-reduce",
        name="bidirectional-ring",
        terms=terms,
        counts=counts,
        formula="2(n-1)(alpha + S/(2n) beta) + (n-1)/(2n) S gamma",
        source="Jouppi et al. 2023",
        message_count="4n(n-1) of p/(2n)",
        ports=2,
        pieces=lambda ranks, **choices: 2 * ranks,
        write=write,
    )
)
