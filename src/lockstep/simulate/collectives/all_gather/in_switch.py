"""All-gather in the switch: every rank sends its share up once, and the switch sends the whole to everyone.

    time = start + (m + 1) alpha + (S + o) beta,   o = S / max(m, n)
n ranks, S bytes of gathered output, m segments; without `segments` the best whole number is taken. Every rank receives
S, a little more than a ring's (n - 1)/n S, in one step instead of n - 1. Only where the switch copies what an owner
sends (NVLink).

Source: Klenk et al., ISCA 2020, section 4; NCCL `src/device/all_gather.h` (NVLS).
"""

from __future__ import annotations

from functools import partial

from lockstep.base.types.arrays import Array, Whole
from lockstep.simulate.collectives import switching
from lockstep.simulate.collectives.registry import Algorithm, register
from lockstep.simulate.collectives.rounds import Rounds


def write(rounds: Rounds, members: Array, start: Whole, stop: Whole, segments: int = 1) -> None:
    """Each share up, then down to everyone."""
    if members.shape[1] == 1:
        return
    legs = switching.one_way_legs(rounds, members, start, stop, segments)
    for k in range(int(segments)):
        legs.down(k, legs.returned(k, legs.began))


IN_SWITCH = register(
    Algorithm(
        op="all-gather",
        name="in-switch",
        terms=switching.one_way_terms,
        counts=partial(switching.one_way_counts, up=False),
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
