"""Broadcast from the root to one rank after another: the naive way.

    time = (n - 1) (alpha + S beta)
n ranks, S bytes. The root's send port is busy all the time.

Source: E. Chan et al., CCPE 19 (2007), section 4 (as the baseline).
"""

from __future__ import annotations

from lockstep.base.types.arrays import Array, Number, Whole
from lockstep.simulate.collectives.cost import Counts, LinkLike, Terms
from lockstep.simulate.collectives.registry import Algorithm, register
from lockstep.simulate.collectives.rounds import Rounds
from lockstep.simulate.collectives.shares import Split


def terms(ranks: Number, size_B: Number, link: LinkLike, split: Split) -> Terms:
    """n - 1 whole buffers, one after another."""
    return Terms(ranks - 1, (ranks - 1) * size_B)


def counts(ranks: Number, size_B: Number, link: LinkLike, split: Split) -> Counts:
    """n - 1 messages of the whole buffer."""
    return Counts(ranks - 1, (ranks - 1) * size_B)


def write(rounds: Rounds, members: Array, start: Whole, stop: Whole) -> None:
    """Member 0 sends everything to members 1, 2, ..."""
    for receiver in range(1, members.shape[1]):
        rounds.messages(members[:, 0], members[:, receiver], start, stop)


LINEAR = register(
    Algorithm(
        op="broadcast",
        name="linear",
        terms=terms,
        counts=counts,
        formula="(n-1)(alpha + S beta)",
        source="Chan et al. 2007",
        dominated_by="binomial",
        pieces=lambda ranks, **choices: 1,
        write=write,
    )
)
