"""Reduce-scatter as Bruck's all-gather played backwards: ceil(log2 n) rounds for any n.

    time = ceil(log2 n) alpha + (beta + gamma) sum_s B(m_s),   m_s = min(2^s, n - 2^s)
    the sum is (n - 1)/n S when shares are equal
Turning every message of an all-gather round and adding what arrives turns each share's broadcast into its reduction.

Source: J. Bruck et al., IEEE TPDS 8 (1997); J. L. Traff, "Optimal, non-pipelined reduce-scatter and allreduce
algorithms", arXiv 2410.14234 (2024).
"""

from __future__ import annotations

import numpy as np

from lockstep.base.types.arrays import Array, Number, Whole
from lockstep.simulate.collectives.all_gather.bruck import dissemination_B
from lockstep.simulate.collectives.cost import Counts, LinkLike, Terms
from lockstep.simulate.collectives.registry import Algorithm, register
from lockstep.simulate.collectives.rounds import Rounds, cut
from lockstep.simulate.collectives.shares import Split, ceil_log2


def terms(ranks: Number, size_B: Number, link: LinkLike, split: Split) -> Terms:
    """ceil(log2 n) rounds; member 0 always receives, and adds, the largest run."""
    carried_B = dissemination_B(size_B, ranks, split)
    return Terms(ceil_log2(ranks), carried_B, carried_B)


def counts(ranks: Number, size_B: Number, link: LinkLike, split: Split) -> Counts:
    """n messages per round; every share is sent and added n - 1 times."""
    return Counts(ranks * ceil_log2(ranks), (ranks - 1) * size_B, (ranks - 1) * size_B)


def write(rounds: Rounds, members: Array, start: Whole, stop: Whole) -> None:
    """The all-gather backwards: member i sends its last m_s live shares to member i + 2^s, which adds them."""
    ranks = members.shape[1]
    place = rounds.rotate(members, cut(start, stop, ranks))
    index = np.arange(ranks)
    for held in [2**s for s in reversed(range((ranks - 1).bit_length()))]:
        count, receiver = min(held, ranks - held), (index + held) % ranks
        rounds.messages(
            members, members[:, receiver], place(held), place(held + count),
            reduce=True, buffer="rotated", to_start=place(0)[:, receiver],
        )  # fmt: skip
    rounds.rotate(members, cut(start, stop, ranks), back=True)


BRUCK = register(
    Algorithm(
        op="reduce-scatter",
        name="bruck",
        terms=terms,
        counts=counts,
        formula="ceil(log2 n) alpha + (n-1)/n S (beta + gamma)",
        source="Bruck et al. 1997; Traff 2024",
        copies=lambda ranks, **choices: 4 * ranks,
        write=write,
    )
)
