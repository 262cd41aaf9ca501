"""Reduce-scatter in the switch: every rank sends its buffer up once and receives its share of the sum.

    time = start + (m + 1) alpha + (S + o) beta,   o = S / max(m, n)
n ranks, S bytes of input, m segments; without `segments` the best whole number is taken. The switch receives S from
every rank, a little more than a ring's (n - 1)/n S, in one step instead of n - 1. Only where the switch hands sums to
owners (NVLink).

Source: Klenk et al., ISCA 2020, section 4; NCCL `src/device/reduce_scatter.h` (NVLS).
"""

from __future__ import annotations

from functools import partial

from lockstep.base.types.arrays import Array, Whole
from lockstep.simulate.collectives import switching
from lockstep.simulate.collectives.registry import Algorithm, register
from lockstep.simulate.collectives.rounds import Rounds


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
        terms=switching.one_way_terms,
        counts=partial(switching.one_way_counts, up=True),
        formula="start + (m+1) alpha + S(1+1/max(m,n)) beta",
        source="Klenk et al. 2020",
        in_switch=True,
        deployed=True,
        choices=("segments",),
        examples=tuple({"segments": count} for count in (1, 2, 5)),
        settle=switching.one_way_settle,
        pieces=switching.one_way_pieces,
        copies=lambda ranks, **choices: ranks,
        write=write,
    )
)
