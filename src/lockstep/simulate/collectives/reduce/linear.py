"""Reduce at the root, one rank after another: the naive way.

    time = (n - 1) (alpha + S (beta + gamma))
n ranks, S bytes. The root's receive port is busy all the time.

Source: E. Chan et al., CCPE 19 (2007), section 4 (as the baseline).
"""

from __future__ import annotations

from lockstep.base.types.arrays import Array, Number, Whole
from lockstep.simulate.collectives.cost import Counts, LinkLike, Terms
from lockstep.simulate.collectives.registry import Algorithm, register
from lockstep.simulate.collectives.rounds import Rounds
from lockstep.simulate.collectives.shares import Split


def terms(ranks: Number, size_B: Number, link: LinkLike, split: Split) -> Terms:
    """n - 1 whole buffers, one after another, each added."""
    carried_B = (ranks - 1) * size_B
    return Terms(ranks - 1, carried_B, carried_B)


def counts(ranks: Number, size_B: Number, link: LinkLike, split: Split) -> Counts:
    """n - 1 messages of the whole buffer."""
    return Counts(ranks - 1, (ranks - 1) * size_B, (ranks - 1) * size_B)


def write(rounds: Rounds, members: Array, start: Whole, stop: Whole) -> None:
    """Members 1, 2, ... send everything to member 0, which adds it."""
    for sender in range(1, members.shape[1]):
        rounds.messages(members[:, sender], members[:, 0], start, stop, reduce=True)


LINEAR = register(
    Algorithm(
        op="reduce",
        name="linear",
        terms=terms,
        counts=counts,
        formula="(n-1)(alpha + S (beta + gamma))",
        source="Chan et al. 2007",
        dominated_by="binomial",
        pieces=lambda ranks, **choices: 1,
        write=write,
    )
)
