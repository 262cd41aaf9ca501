"""Scatter from the root to one rank after another.

    time = (n - 1) alpha + (S - c) beta,   c = the root's own share = S/n
n ranks, S bytes at the root. Bandwidth-optimal: every byte leaves the root once.

Source: E. Chan et al., CCPE 19 (2007), section 4.
"""

from __future__ import annotations

from lockstep.base.types.arrays import Array, Number, Whole
from lockstep.simulate.collectives.cost import Counts, LinkLike, Terms
from lockstep.simulate.collectives.registry import Algorithm, register
from lockstep.simulate.collectives.rounds import Rounds, cut
from lockstep.simulate.collectives.shares import Split


def terms(ranks: Number, size_B: Number, link: LinkLike, split: Split) -> Terms:
    """n - 1 messages, all but the root's own share."""
    return Terms(ranks - 1, size_B - split.largest_B(size_B, ranks))


def counts(ranks: Number, size_B: Number, link: LinkLike, split: Split) -> Counts:
    """n - 1 messages; all but the root's own share."""
    return Counts(ranks - 1, size_B - split.largest_B(size_B, ranks))


def write(rounds: Rounds, members: Array, start: Whole, stop: Whole) -> None:
    """Member 0 sends share i to member i, for i = 1, 2, ..."""
    ranks = members.shape[1]
    edges = cut(start, stop, ranks)
    for receiver in range(1, ranks):
        rounds.messages(members[:, 0], members[:, receiver], edges[:, receiver], edges[:, receiver + 1])


LINEAR = register(
    Algorithm(
        op="scatter",
        name="linear",
        terms=terms,
        counts=counts,
        formula="(n-1) alpha + (n-1)/n S beta",
        source="Chan et al. 2007",
        dominated_by="binomial",
        write=write,
    )
)
