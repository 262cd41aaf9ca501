"""Broadcast as scatter, then all-gather (van de Geijn): about 2 S beta however many ranks.

    time = ceil(log2 n) alpha + (S - c) beta   binomial scatter,   c = largest share = S/n
         + all-gather of S: ceil(log2 n) alpha + (n - 1)/n S beta by Bruck; `all_gather="ring"`: the ring's
The root is the last to finish the scatter and holds the largest share, so the two times add up exactly.

Source: M. Barnett et al., "Interprocessor collective communication library (InterCom)", SHPCC 1994; Thakur et
al., IJHPCA 19 (2005), on broadcast.
"""

from __future__ import annotations

from lockstep.base.types.arrays import Array, Number, Whole
from lockstep.simulate.collectives.cost import Counts, LinkLike, Terms
from lockstep.simulate.collectives.registry import Algorithm, get, register
from lockstep.simulate.collectives.rounds import Rounds
from lockstep.simulate.collectives.scatter import binomial as scatter
from lockstep.simulate.collectives.shares import Split


def terms(ranks: Number, size_B: Number, link: LinkLike, split: Split, all_gather: str = "bruck") -> Terms:
    """Scatter + all-gather."""
    second = get("all-gather", all_gather).terms(ranks, size_B, link, split)
    return scatter.terms(ranks, size_B, link, split) + second


def counts(ranks: Number, size_B: Number, link: LinkLike, split: Split, all_gather: str = "bruck") -> Counts:
    """Scatter + all-gather."""
    second = get("all-gather", all_gather).counts(ranks, size_B, link, split)
    return scatter.counts(ranks, size_B, link, split) + second


def write(rounds: Rounds, members: Array, start: Whole, stop: Whole, all_gather: str = "bruck") -> None:
    """Scatter, then all-gather."""
    scatter.write(rounds, members, start, stop)
    get("all-gather", all_gather).write(rounds, members, start, stop)


SCATTER_ALL_GATHER = register(
    Algorithm(
        op="broadcast",
        name="scatter-all-gather",
        terms=terms,
        counts=counts,
        formula="2 ceil(log2 n) alpha + 2(n-1)/n S beta",
        source="Barnett et al. 1994",
        choices=("all_gather",),
        examples=({"all_gather": "ring"},),
        copies=lambda ranks, **choices: 4 * ranks,
        write=write,
    )
)
