"""All-reduce around a ring: reduce-scatter, then all-gather; 2 (n - 1) rounds of one share.

    time = 2 (n - 1) (alpha + c beta) + (n - 1) c gamma,   c = largest share = S/n (whole elements: ceil)
n ranks, S bytes of buffer. Any n. Sends exactly 2 (n - 1)/n S per rank on average, the bandwidth lower bound; latency
grows with n, so it is bandwidth-bound only where S beta / n >> alpha. A ring runs at its slowest link.

Source: P. Patarasuk, X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 69 (2009).
"""

from __future__ import annotations

from lockstep.base.types.arrays import Array, Number, Whole
from lockstep.simulate.collectives.all_gather import ring as all_gather
from lockstep.simulate.collectives.cost import Counts, LinkLike, Terms
from lockstep.simulate.collectives.reduce_scatter import ring as reduce_scatter
from lockstep.simulate.collectives.registry import Algorithm, register
from lockstep.simulate.collectives.rounds import Rounds
from lockstep.simulate.collectives.shares import Split


def terms(ranks: Number, size_B: Number, link: LinkLike, split: Split) -> Terms:
    """Reduce-scatter + all-gather; the largest share is on the critical path of both."""
    return reduce_scatter.terms(ranks, size_B, link, split) + all_gather.terms(ranks, size_B, link, split)


def counts(ranks: Number, size_B: Number, link: LinkLike, split: Split) -> Counts:
    """2 n (n - 1) messages."""
    return reduce_scatter.counts(ranks, size_B, link, split) + all_gather.counts(ranks, size_B, link, split)


def write(rounds: Rounds, members: Array, start: Whole, stop: Whole, reverse: bool = False) -> None:
    """Reduce-scatter, then all-gather; `reverse` runs the ring the other way."""
    reduce_scatter.write(rounds, members, start, stop, reverse)
    all_gather.write(rounds, members, start, stop, reverse)


RING = register(
    Algorithm(
        op="all-reduce",
        name="ring",
        terms=terms,
        counts=counts,
        formula="2(n-1)(alpha + S/n beta) + (n-1)/n S gamma",
        source="Patarasuk & Yuan 2009",
        deployed=True,
        message_count="2n(n-1) of p/n",
        write=write,
    )
)
