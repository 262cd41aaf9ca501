"""All-gather by direct exchange: every rank sends its own share straight to each of the others, one peer per round.

    time = (n - 1) (alpha + c beta),   c = largest share = S/n
Same price as the ring on one port; no share is passed on by a third rank.

Source: E. Chan et al., CCPE 19 (2007), section 3 (one-port exchange among all pairs).
"""

from __future__ import annotations

import numpy as np

from lockstep.base.types.arrays import Array, Whole
from lockstep.simulate.collectives.all_gather.ring import counts, terms
from lockstep.simulate.collectives.registry import Algorithm, register
from lockstep.simulate.collectives.rounds import Rounds, cut


def write(rounds: Rounds, members: Array, start: Whole, stop: Whole) -> None:
    """Round t: member i sends share i to member i + t."""
    ranks = members.shape[1]
    edges = cut(start, stop, ranks)
    index = np.arange(ranks)
    for turn in range(1, ranks):
        receiver = members[:, (index + turn) % ranks]
        rounds.messages(members, receiver, edges[:, :-1], edges[:, 1:])


DIRECT = register(
    Algorithm(
        op="all-gather",
        name="direct",
        terms=terms,
        counts=counts,
        formula="(n-1)(alpha + S/n beta)",
        source="Chan et al. 2007",
        dominated_by="ring",
        write=write,
    )
)
