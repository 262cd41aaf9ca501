"""Reduce-scatter by direct exchange: every rank sends each share straight to its owner, one peer per round.

    time = (n - 1) (alpha + c beta + c gamma),   c = largest share = S/n
Same price as the ring on one port, but each message crosses the network once and no rank waits for a chain of others.

Source: R. Thakur et al., IJHPCA 19 (2005), on reduce-scatter (pairwise exchange).
"""

from __future__ import annotations

import numpy as np

from lockstep.base.types.arrays import Array, Whole
from lockstep.simulate.collectives.reduce_scatter.ring import counts, terms
from lockstep.simulate.collectives.registry import Algorithm, register
from lockstep.simulate.collectives.rounds import Rounds, cut


def write(rounds: Rounds, members: Array, start: Whole, stop: Whole) -> None:
    """Round t: member i sends share i + t to member i + t, which adds it."""
    ranks = members.shape[1]
    edges = cut(start, stop, ranks)
    index = np.arange(ranks)
    for turn in range(1, ranks):
        owner = (index + turn) % ranks
        rounds.messages(members, members[:, owner], edges[:, owner], edges[:, owner + 1], reduce=True)


DIRECT = register(
    Algorithm(
        op="reduce-scatter",
        name="direct",
        terms=terms,
        counts=counts,
        formula="(n-1)(alpha + S/n (beta + gamma))",
        source="Thakur et al. 2005",
        dominated_by="ring",
        write=write,
    )
)
