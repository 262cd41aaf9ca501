"""Reduce as reduce-scatter, then gather (Rabenseifner): about 2 S beta + S gamma however many ranks.

    time = reduce-scatter of S: ceil(log2 n) alpha + (n - 1)/n S (beta + gamma) by Bruck; "ring": the ring's
         + ceil(log2 n) alpha + (S - c) beta   binomial gather,   c = largest share = S/n
The root is the last to finish its share, so the two times add up exactly.

Source: R. Rabenseifner, ICCS 2004; R. Thakur et al., IJHPCA 19 (2005), on reduce.
"""

from __future__ import annotations

from lockstep.base.types.arrays import Array, Number, Whole
from lockstep.simulate.collectives.cost import Counts, LinkLike, Terms
from lockstep.simulate.collectives.gather import binomial as gather
from lockstep.simulate.collectives.registry import Algorithm, get, register
from lockstep.simulate.collectives.rounds import Rounds
from lockstep.simulate.collectives.scatter import binomial as scatter
from lockstep.simulate.collectives.shares import Split


def terms(ranks: Number, size_B: Number, link: LinkLike, split: Split, reduce_scatter: str = "bruck") -> Terms:
    """Reduce-scatter + gather."""
    first = get("reduce-scatter", reduce_scatter).terms(ranks, size_B, link, split)
    return first + scatter.terms(ranks, size_B, link, split)


def counts(ranks: Number, size_B: Number, link: LinkLike, split: Split, reduce_scatter: str = "bruck") -> Counts:
    """Reduce-scatter + gather."""
    first = get("reduce-scatter", reduce_scatter).counts(ranks, size_B, link, split)
    return first + scatter.counts(ranks, size_B, link, split)


def write(rounds: Rounds, members: Array, start: Whole, stop: Whole, reduce_scatter: str = "bruck") -> None:
    """Reduce-scatter, then gather."""
    get("reduce-scatter", reduce_scatter).write(rounds, members, start, stop)
    gather.write(rounds, members, start, stop)


REDUCE_SCATTER_GATHER = register(
    Algorithm(
        op="reduce",
        name="reduce-scatter-gather",
        terms=terms,
        counts=counts,
        formula="2 ceil(log2 n) alpha + 2(n-1)/n S beta + (n-1)/n S gamma",
        source="Rabenseifner 2004",
        choices=("reduce_scatter",),
        examples=({"reduce_scatter": "ring"},),
        copies=lambda ranks, **choices: 4 * ranks,
        write=write,
    )
)
