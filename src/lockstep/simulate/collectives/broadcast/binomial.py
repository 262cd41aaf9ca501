"""Broadcast along a binomial tree: the number of ranks that have the buffer doubles every round.

    time = ceil(log2 n) (alpha + S beta)
n ranks (any), S bytes. The fewest latencies possible.

Source: R. Thakur, R. Rabenseifner, W. Gropp, IJHPCA 19 (2005), on broadcast.
"""

from __future__ import annotations

from lockstep.base.types.arrays import Array, Number, Whole
from lockstep.simulate.collectives.broadcast.linear import counts
from lockstep.simulate.collectives.cost import LinkLike, Terms
from lockstep.simulate.collectives.registry import Algorithm, register
from lockstep.simulate.collectives.rounds import Rounds, cut
from lockstep.simulate.collectives.shares import Split, ceil_log2


def terms(ranks: Number, size_B: Number, link: LinkLike, split: Split) -> Terms:
    """ceil(log2 n) rounds of the whole buffer."""
    rounds = ceil_log2(ranks)
    return Terms(rounds, rounds * size_B)


def write(rounds: Rounds, members: Array, start: Whole, stop: Whole) -> None:
    """Round s: member i < 2^s sends everything to member i + 2^s."""
    ranks = members.shape[1]
    whole = cut(start, stop, 1)
    have = 1
    while have < ranks:
        count = min(have, ranks - have)
        rounds.messages(members[:, :count], members[:, have : have + count], whole[:, :1], whole[:, 1:])
        have *= 2


BINOMIAL = register(
    Algorithm(
        op="broadcast",
        name="binomial",
        terms=terms,
        counts=counts,
        formula="ceil(log2 n) (alpha + S beta)",
        source="Thakur et al. 2005",
        pieces=lambda ranks, **choices: 1,
        write=write,
    )
)
