"""Reduce-scatter in the switch: every rank sends its buffer up once and receives its share of the sum.

    time = start + (m + 1) alpha + (S + o) beta,   o = S / max(m, n)
n ranks, S bytes of input, m segments; without `segments` the best whole number is taken. The switch receives S from
every rank, a little more than a ring's (n - 1)/n S, in one step instead of n - 1. Only where the switch hands sums to
owners (NVLink).

Source: Klenk et al., ISCA 2020, section 4; NCCL `src/device/reduce_scatter.h` (NVLS).
"""

from __future__ import annotations

from lockstep.base.types.arrays import Array, Number, Whole
from lockstep.simulate.collectives import switching
from lockstep.simulate.collectives.cost import Counts, LinkLike, Terms
from lockstep.simulate.collectives.registry import Algorithm, register
from lockstep.simulate.collectives.rounds import Rounds
from lockstep.simulate.collectives.shares import Split
from lockstep.simulate.collectives.switching import one_way_settle as settle


def terms(ranks: Number, size_B: Number, link: LinkLike, split: Split, segments: Number | None = None) -> Terms:
    """Slots of the busiest port."""
    settled = settle(ranks, size_B, link, split, segments)
    return switching.one_way_time(ranks, size_B, settled["segments"], split)


def counts(ranks: Number, size_B: Number, link: LinkLike, split: Split, segments: Number | None = None) -> Counts:
    """Both legs; the switch adds what n - 1 ranks send."""
    settled = settle(ranks, size_B, link, split, segments)
    return switching.one_way_counts(ranks, size_B, settled["segments"], up=True)


def write(rounds: Rounds, members: Array, start: Whole, stop: Whole, segments: int = 1) -> None:
    """Up, then each share to its owner."""
    if members.shape[1] == 1:
        return
    legs = switching.one_way_legs(rounds, members, start, stop, segments)
    for k in range(int(segments)):
        legs.handed(k, legs.up(k))


IN_SWITCH = register(
    Algorithm(
        op="reduce-scatter",
        name="in-switch",
        terms=terms,
        counts=counts,
        formula="start + (m+1) alpha + S(1+1/max(m,n)) beta",
        source="Klenk et al. 2020",
        in_switch=True,
        deployed=True,
        choices=("segments",),
        examples=tuple({"segments": count} for count in (1, 2, 5)),
        settle=settle,
        pieces=switching.one_way_pieces,
        copies=lambda ranks, **choices: ranks,
        write=write,
    )
)
