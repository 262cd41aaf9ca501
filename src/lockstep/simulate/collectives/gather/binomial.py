"""Gather along a binomial tree: the scatter backwards; runs of shares join until the root has all.

    time = ceil(log2 n) alpha + (S - c) beta,   c = the root's own share = S/n
n ranks (any), S bytes gathered.

Source: R. Thakur, R. Rabenseifner, W. Gropp, IJHPCA 19 (2005), on broadcast; E. Chan et al., CCPE 19 (2007), section 4.
"""

from __future__ import annotations

from lockstep.base.types.arrays import Array, Whole
from lockstep.simulate.collectives.registry import Algorithm, register
from lockstep.simulate.collectives.rounds import Rounds, cut
from lockstep.simulate.collectives.scatter.binomial import counts, halvings, terms


def write(rounds: Rounds, members: Array, start: Whole, stop: Whole) -> None:
    """The halvings of the scatter backwards: member `middle` returns its run to the holder."""
    edges = cut(start, stop, members.shape[1])
    for first, middle, end in reversed(halvings(members.shape[1])):
        rounds.messages(members[:, middle], members[:, first], edges[:, middle], edges[:, end])


BINOMIAL = register(
    Algorithm(
        op="gather",
        name="binomial",
        terms=terms,
        counts=counts,
        formula="ceil(log2 n) alpha + (n-1)/n S beta",
        source="Thakur et al. 2005",
        write=write,
    )
)
