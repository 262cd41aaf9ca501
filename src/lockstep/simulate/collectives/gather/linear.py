"""Gather at the root, one rank after another.

    time = (n - 1) alpha + (S - c) beta,   c = the root's own share = S/n
n ranks, S bytes gathered. Bandwidth-optimal: every byte enters the root once.

Source: E. Chan et al., CCPE 19 (2007), section 4.
"""

from __future__ import annotations

from lockstep.base.types.arrays import Array, Whole
from lockstep.simulate.collectives.registry import Algorithm, register
from lockstep.simulate.collectives.rounds import Rounds, cut
from lockstep.simulate.collectives.scatter.linear import counts, terms


def write(rounds: Rounds, members: Array, start: Whole, stop: Whole) -> None:
    """Member i sends share i to member 0, for i = 1, 2, ..."""
    ranks = members.shape[1]
    edges = cut(start, stop, ranks)
    for sender in range(1, ranks):
        rounds.messages(members[:, sender], members[:, 0], edges[:, sender], edges[:, sender + 1])


LINEAR = register(
    Algorithm(
        op="gather",
        name="linear",
        terms=terms,
        counts=counts,
        formula="(n-1) alpha + (n-1)/n S beta",
        source="Chan et al. 2007",
        dominated_by="binomial",
        write=write,
    )
)
