"""All-reduce as linear reduce to one rank, then linear broadcast: a parameter server that is one of the workers.

    time = 2 (n - 1) (alpha + S beta) + (n - 1) S gamma
2 (n - 1) messages of the whole buffer, all through the root.

Source: definition; as the baseline in P. Patarasuk, X. Yuan, JPDC 69 (2009).
"""

from __future__ import annotations

from lockstep.base.types.arrays import Array, Number, Whole
from lockstep.simulate.collectives.broadcast import linear as broadcast
from lockstep.simulate.collectives.cost import Counts, LinkLike, Terms
from lockstep.simulate.collectives.reduce import linear as reduce
from lockstep.simulate.collectives.registry import Algorithm, register
from lockstep.simulate.collectives.rounds import Rounds
from lockstep.simulate.collectives.shares import Split


def terms(ranks: Number, size_B: Number, link: LinkLike, split: Split) -> Terms:
    """Linear reduce + linear broadcast."""
    return reduce.terms(ranks, size_B, link, split) + broadcast.terms(ranks, size_B, link, split)


def counts(ranks: Number, size_B: Number, link: LinkLike, split: Split) -> Counts:
    """Linear reduce + linear broadcast."""
    return reduce.counts(ranks, size_B, link, split) + broadcast.counts(ranks, size_B, link, split)


def write(rounds: Rounds, members: Array, start: Whole, stop: Whole) -> None:
    """Linear reduce, then linear broadcast."""
    reduce.write(rounds, members, start, stop)
    broadcast.write(rounds, members, start, stop)


NAIVE = register(
    Algorithm(
        op="all-reduce",
        name="naive",
        terms=terms,
        counts=counts,
        formula="2(n-1)(alpha + S beta) + (n-1) S gamma",
        source="definition",
        message_count="2(n-1) of p",
        dominated_by="tree",
        pieces=lambda ranks, **choices: 1,
        write=write,
    )
)
