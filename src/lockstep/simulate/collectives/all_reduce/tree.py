"""All-reduce on a binomial tree: reduce, then broadcast, whole buffers each time.

    time = 2 ceil(log2 n) (alpha + S beta) + ceil(log2 n) S gamma
n ranks (any), S bytes. Never better than recursive doubling when n is a power of two; needs no fold when it is not.

Source: R. Thakur, R. Rabenseifner, W. Gropp, IJHPCA 19 (2005), on all-reduce (the original MPICH all-reduce).
"""

from __future__ import annotations

from lockstep.base.types.arrays import Array, Number, Whole
from lockstep.simulate.collectives.broadcast import binomial as broadcast
from lockstep.simulate.collectives.cost import Counts, LinkLike, Terms
from lockstep.simulate.collectives.reduce import binomial as reduce
from lockstep.simulate.collectives.registry import Algorithm, register
from lockstep.simulate.collectives.rounds import Rounds
from lockstep.simulate.collectives.shares import Split


def terms(ranks: Number, size_B: Number, link: LinkLike, split: Split) -> Terms:
    """Binomial reduce + binomial broadcast."""
    return reduce.terms(ranks, size_B, link, split) + broadcast.terms(ranks, size_B, link, split)


def counts(ranks: Number, size_B: Number, link: LinkLike, split: Split) -> Counts:
    """2 (n - 1) messages of the whole buffer."""
    return Counts(2 * (ranks - 1), 2 * (ranks - 1) * size_B, (ranks - 1) * size_B)


def write(rounds: Rounds, members: Array, start: Whole, stop: Whole) -> None:
    """Binomial reduce, then binomial broadcast."""
    reduce.write(rounds, members, start, stop)
    broadcast.write(rounds, members, start, stop)


TREE = register(
    Algorithm(
        op="all-reduce",
        name="tree",
        terms=terms,
        counts=counts,
        formula="2 ceil(log2 n) (alpha + S beta) + ceil(log2 n) S gamma",
        source="Thakur et al. 2005",
        message_count="2(n-1) of p",
        pieces=lambda ranks, **choices: 1,
        write=write,
    )
)
