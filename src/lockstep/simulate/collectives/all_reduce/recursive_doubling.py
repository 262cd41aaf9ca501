"""All-reduce by recursive doubling: partners at distance 1, 2, 4 ... swap whole buffers and add; for tiny messages.

    n = 2^k:    time = log2 n (alpha + S (beta + gamma)),   the fewest latencies possible
    otherwise:  the x = n - 2^k extra ranks are folded in: plus alpha + S (beta + gamma) before,
                alpha + S beta after.

Source: R. Thakur, R. Rabenseifner, W. Gropp, IJHPCA 19 (2005), on all-reduce.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.types.arrays import Array, Number, Whole
from lockstep.simulate.collectives.cost import Counts, LinkLike, Terms
from lockstep.simulate.collectives.registry import Algorithm, register
from lockstep.simulate.collectives.rounds import Rounds, cut, fold
from lockstep.simulate.collectives.shares import Split, floor_log2, power_of_two_core


def terms(ranks: Number, size_B: Number, link: LinkLike, split: Split) -> Terms:
    """floor(log2 n) rounds of the whole buffer, and two more when n is not a power of two."""
    folded = np.minimum(power_of_two_core(ranks)[1], 1)
    adding = floor_log2(ranks) + folded
    return Terms(adding + folded, (adding + folded) * size_B, adding * size_B)


def counts(ranks: Number, size_B: Number, link: LinkLike, split: Split) -> Counts:
    """2^k log2 2^k messages and two per extra rank, each of the whole buffer."""
    core, extra = power_of_two_core(ranks)
    swaps = core * floor_log2(ranks)
    return Counts(swaps + 2 * extra, (swaps + 2 * extra) * size_B, (swaps + extra) * size_B)


def write(rounds: Rounds, members: Array, start: Whole, stop: Whole) -> None:
    """Fold, then round s: core members i and i xor 2^s swap and add, then unfold."""
    core, absorbed, absorber = fold(members.shape[1])
    whole = cut(start, stop, 1)
    first, last = whole[:, :1], whole[:, 1:]
    rounds.messages(members[:, absorbed], members[:, absorber], first, last, reduce=True)
    index = np.arange(len(core))
    distance = 1
    while distance < len(core):
        rounds.messages(members[:, core], members[:, core[index ^ distance]], first, last, reduce=True)
        distance *= 2
    rounds.messages(members[:, absorber], members[:, absorbed], first, last)


RECURSIVE_DOUBLING = register(
    Algorithm(
        op="all-reduce",
        name="recursive-doubling",
        terms=terms,
        counts=counts,
        formula="log2 n (alpha + S (beta + gamma)); n not 2^k: fold adds 2 alpha + S (2 beta + gamma)",
        source="Thakur et al. 2005",
        message_count="n log2 n of p; n not 2^k: k 2^k + 2(n-2^k)",
        pieces=lambda ranks, **choices: 1,
        write=write,
    )
)
