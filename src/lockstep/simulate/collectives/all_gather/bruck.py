"""All-gather by Bruck's dissemination: ceil(log2 n) rounds for any n; what a rank holds doubles every round.

    time = ceil(log2 n) alpha + beta sum_s B(m_s),   m_s = min(2^s, n - 2^s)
B(m) = bytes of the first m shares = m S/n when shares are equal, so the sum is (n - 1)/n S: latency and bandwidth
optimal at once. Every rank works on a copy that begins with its own share (free of time here), so that runs never wrap.

Source: J. Bruck et al., "Efficient algorithms for all-to-all communications in multiport message-passing systems",
IEEE TPDS 8 (1997); R. Thakur et al., IJHPCA 19 (2005), on all-gather.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.types.arrays import Array, Number, Whole
from lockstep.simulate.collectives.cost import Counts, LinkLike, Terms
from lockstep.simulate.collectives.registry import Algorithm, register
from lockstep.simulate.collectives.rounds import Rounds, cut
from lockstep.simulate.collectives.shares import Split, ceil_log2


def terms(ranks: Number, size_B: Number, link: LinkLike, split: Split) -> Terms:
    """ceil(log2 n) rounds; member 0 always sends the largest run."""
    return Terms(ceil_log2(ranks), dissemination_B(size_B, ranks, split))


def dissemination_B(size_B: Number, ranks: Number, split: Split) -> Number:
    """Bytes in series: sum over rounds s of the first min(2^s, n - 2^s) of n shares."""
    if split.element_B == 0.0:
        return size_B * ((ranks - 1) / ranks)
    total: Number = 0.0 * np.asarray(size_B * ranks)
    for exponent in range(int(np.max(ceil_log2(ranks), initial=0))):
        held = np.ldexp(1.0, exponent)
        total = total + split.leading_B(size_B, ranks, np.clip(np.asarray(ranks) - held, 0, held))
    return total


def counts(ranks: Number, size_B: Number, link: LinkLike, split: Split) -> Counts:
    """n messages per round; every rank receives all shares but its own."""
    return Counts(ranks * ceil_log2(ranks), (ranks - 1) * size_B)


def write(rounds: Rounds, members: Array, start: Whole, stop: Whole) -> None:
    """Round s: member i sends the first m_s shares it holds to member i - 2^s, which appends them."""
    ranks = members.shape[1]
    place = rounds.rotate(members, cut(start, stop, ranks))
    index = np.arange(ranks)
    held = 1
    while held < ranks:
        count, receiver = min(held, ranks - held), (index - held) % ranks
        rounds.messages(
            members, members[:, receiver], place(0), place(count),
            buffer="rotated", to_start=place(held)[:, receiver],
        )  # fmt: skip
        held *= 2
    rounds.rotate(members, cut(start, stop, ranks), back=True)


BRUCK = register(
    Algorithm(
        op="all-gather",
        name="bruck",
        terms=terms,
        counts=counts,
        formula="ceil(log2 n) alpha + (n-1)/n S beta",
        source="Bruck et al. 1997",
        copies=lambda ranks, **choices: 4 * ranks,
        write=write,
    )
)
