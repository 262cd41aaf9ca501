"""All-reduce by full exchange ("all-to-all"): every rank sends its whole buffer to every other and adds what comes.

    time = (n - 1) (alpha + S (beta + gamma));   n (n - 1) messages of S bytes
The first of the three paradigms: n (n - 1) messages of p, against 2 n of p (parameter server) and 2 n (n - 1) of p/n
(ring).

Source: definition; bytes against the optimum in P. Patarasuk, X. Yuan, JPDC 69 (2009), section 2.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.types.arrays import Array, Number, Whole
from lockstep.simulate.collectives.cost import Counts, LinkLike, Terms
from lockstep.simulate.collectives.registry import Algorithm, register
from lockstep.simulate.collectives.rounds import Rounds, cut
from lockstep.simulate.collectives.shares import Split


def terms(ranks: Number, size_B: Number, link: LinkLike, split: Split) -> Terms:
    """n - 1 rounds of the whole buffer."""
    carried_B = (ranks - 1) * size_B
    return Terms(ranks - 1, carried_B, carried_B)


def counts(ranks: Number, size_B: Number, link: LinkLike, split: Split) -> Counts:
    """n (n - 1) messages of the whole buffer."""
    total_B = ranks * (ranks - 1) * size_B
    return Counts(ranks * (ranks - 1), total_B, total_B)


def write(rounds: Rounds, members: Array, start: Whole, stop: Whole) -> None:
    """Keep a copy of the own buffer to send; round t: member i sends it to member i + t."""
    ranks = members.shape[1]
    whole = cut(start, stop, 1)
    first, last = whole[:, :1], whole[:, 1:]
    if ranks > 1:
        rounds.copies(members, first, last, "data", first, "own")
    index = np.arange(ranks)
    for turn in range(1, ranks):
        receiver = members[:, (index + turn) % ranks]
        rounds.messages(members, receiver, first, last, reduce=True, buffer="own", to_buffer="data")


FULL_EXCHANGE = register(
    Algorithm(
        op="all-reduce",
        name="full-exchange",
        terms=terms,
        counts=counts,
        formula="(n-1)(alpha + S (beta + gamma))",
        source="definition",
        message_count="n(n-1) of p",
        pieces=lambda ranks, **choices: 1,
        copies=lambda ranks, **choices: ranks,
        write=write,
    )
)
