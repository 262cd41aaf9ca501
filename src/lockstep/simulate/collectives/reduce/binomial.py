"""Reduce along a binomial tree: the broadcast backwards, adding on the way.

    time = ceil(log2 n) (alpha + S (beta + gamma))
n ranks (any), S bytes.

Source: R. Thakur, R. Rabenseifner, W. Gropp, IJHPCA 19 (2005), on reduce.
"""

from __future__ import annotations

from lockstep.base.types.arrays import Array, Number, Whole
from lockstep.simulate.collectives.cost import LinkLike, Terms
from lockstep.simulate.collectives.reduce.linear import counts
from lockstep.simulate.collectives.registry import Algorithm, register
from lockstep.simulate.collectives.rounds import Rounds, cut
from lockstep.simulate.collectives.shares import Split, ceil_log2


def terms(ranks: Number, size_B: Number, link: LinkLike, split: Split) -> Terms:
    """ceil(log2 n) rounds of the whole buffer, each added."""
    rounds = ceil_log2(ranks)
    return Terms(rounds, rounds * size_B, rounds * size_B)


def write(rounds: Rounds, members: Array, start: Whole, stop: Whole) -> None:
    """Round s, from the last to 0: member i + 2^s sends everything to member i < 2^s."""
    ranks = members.shape[1]
    whole = cut(start, stop, 1)
    for have in [2**s for s in reversed(range((ranks - 1).bit_length()))]:
        count = min(have, ranks - have)
        rounds.messages(members[:, have : have + count], members[:, :count], whole[:, :1], whole[:, 1:], reduce=True)


BINOMIAL = register(
    Algorithm(
        op="reduce",
        name="binomial",
        terms=terms,
        counts=counts,
        formula="ceil(log2 n) (alpha + S (beta + gamma))",
        source="Thakur et al. 2005",
        pieces=lambda ranks, **choices: 1,
        write=write,
    )
)
