"""Reduce-scatter around a ring: n - 1 rounds; every share travels once around and ends, complete, at its owner.

    time = (n - 1) (alpha + c beta + c gamma),   c = largest share = S/n (whole elements: ceil)
n ranks, S bytes of input per rank. Any n. Each rank sends and receives one share per round (one port, full duplex).

Source: P. Patarasuk, X. Yuan, JPDC 69 (2009), section 4; R. Thakur et al., IJHPCA 19 (2005), on reduce-scatter.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.types.arrays import Array, Number, Whole
from lockstep.simulate.collectives.cost import Counts, LinkLike, Terms
from lockstep.simulate.collectives.registry import Algorithm, register
from lockstep.simulate.collectives.rounds import Rounds, cut
from lockstep.simulate.collectives.shares import Split


def terms(ranks: Number, size_B: Number, link: LinkLike, split: Split) -> Terms:
    """n - 1 rounds of the largest share, each reduced."""
    rounds = ranks - 1
    carried_B = rounds * split.largest_B(size_B, ranks)
    return Terms(rounds, carried_B, carried_B)


def counts(ranks: Number, size_B: Number, link: LinkLike, split: Split) -> Counts:
    """n (n - 1) messages; every share is sent and reduced n - 1 times."""
    return Counts(ranks * (ranks - 1), (ranks - 1) * size_B, (ranks - 1) * size_B)


def write(rounds: Rounds, members: Array, start: Whole, stop: Whole, reverse: bool = False) -> None:
    """Round t: member i sends share i - t - 1 to member i + 1, which adds it; share j ends at member j."""
    ranks = members.shape[1]
    edges = cut(start, stop, ranks)
    index = np.arange(ranks)
    step = -1 if reverse else 1
    for turn in range(ranks - 1):
        share = (index - step * (turn + 1)) % ranks
        receiver = members[:, (index + step) % ranks]
        rounds.messages(members, receiver, edges[:, share], edges[:, share + 1], reduce=True)


RING = register(
    Algorithm(
        op="reduce-scatter",
        name="ring",
        terms=terms,
        counts=counts,
        formula="(n-1)(alpha + S/n (beta + gamma))",
        source="Patarasuk & Yuan 2009",
        deployed=True,
        write=write,
    )
)
