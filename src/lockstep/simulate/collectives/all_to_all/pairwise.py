"""All-to-all by pairwise exchange: in round t ranks i and i xor t swap their shares.

    time = (n - 1) (alpha + c beta),   c = largest share = S/n
n a power of two; other n use the rounds of `direct` (to i + t, from i - t), as MPICH does. A pair uses one link both
ways, which suits networks where that is cheaper; in the one-port model the price is that of `direct`.

Source: R. Thakur, R. Rabenseifner, W. Gropp, IJHPCA 19 (2005), on all-to-all.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.types.arrays import Array, Whole
from lockstep.simulate.collectives.all_to_all import direct
from lockstep.simulate.collectives.all_to_all.direct import counts, exchange, keep_own, terms
from lockstep.simulate.collectives.registry import Algorithm, register
from lockstep.simulate.collectives.rounds import Rounds, cut


def write(rounds: Rounds, members: Array, start: Whole, stop: Whole) -> None:
    """Round t: member i swaps with member i xor t."""
    ranks = members.shape[1]
    if ranks & (ranks - 1):
        direct.write(rounds, members, start, stop)
        return
    edges = cut(start, stop, ranks)
    keep_own(rounds, members, edges)
    index = np.arange(ranks)
    for turn in range(1, ranks):
        exchange(rounds, members, edges, index, index ^ turn)


PAIRWISE = register(
    Algorithm(
        op="all-to-all",
        name="pairwise",
        terms=terms,
        counts=counts,
        formula="(n-1)(alpha + S/n beta)",
        source="Thakur et al. 2005",
        dominated_by="direct",
        copies=lambda ranks, **choices: ranks,
        write=write,
    )
)
