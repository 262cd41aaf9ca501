"""All-gather around a ring: n - 1 rounds; every share is passed on until all have it.

    time = (n - 1) (alpha + c beta),   c = largest share = S/n (whole elements: ceil)
n ranks, S bytes of gathered output. Any n. One port, full duplex.

Source: R. Thakur, R. Rabenseifner, W. Gropp, IJHPCA 19 (2005), on all-gather.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.types.arrays import Array, Number, Whole
from lockstep.simulate.collectives.cost import Counts, LinkLike, Terms
from lockstep.simulate.collectives.registry import Algorithm, register
from lockstep.simulate.collectives.rounds import Rounds, cut
from lockstep.simulate.collectives.shares import Split


def terms(ranks: Number, size_B: Number, link: LinkLike, split: Split) -> Terms:
    """n - 1 rounds of the largest share."""
    return Terms(ranks - 1, (ranks - 1) * split.largest_B(size_B, ranks))


def counts(ranks: Number, size_B: Number, link: LinkLike, split: Split) -> Counts:
    """n (n - 1) messages; every share is sent n - 1 times."""
    return Counts(ranks * (ranks - 1), (ranks - 1) * size_B)


def write(rounds: Rounds, members: Array, start: Whole, stop: Whole, reverse: bool = False) -> None:
    """Round t: member i sends share i - t to member i + 1; share j starts at member j."""
    ranks = members.shape[1]
    edges = cut(start, stop, ranks)
    index = np.arange(ranks)
    step = -1 if reverse else 1
    for turn in range(ranks - 1):
        share = (index - step * turn) % ranks
        receiver = members[:, (index + step) % ranks]
        rounds.messages(members, receiver, edges[:, share], edges[:, share + 1])


RING = register(
    Algorithm(
        op="all-gather",
        name="ring",
        terms=terms,
        counts=counts,
        formula="(n-1)(alpha + S/n beta)",
        source="Thakur et al. 2005",
        deployed=True,
        write=write,
    )
)
