"""All-reduce in the switch: every rank sends its buffer up once and receives the sum once.

    time = start + (2m + 1) alpha + ((m + 2) s + (m - 1) o) beta      m >= 2 segments, to owners (NVLink)
    time = start + 4 alpha + 2 (S + o) beta                           m = 1
    time = start + (m + 1) (alpha + s beta)                           to everyone (InfiniBand)
    s = S/m, o = s/n;  with many segments  S (1 + 1/n) beta  and  S beta
n ranks, S bytes of buffer. Half of the bytes of a ring, so the bus bandwidth may be up to 2 (n - 1)/(n + 1) times the
rate at which bytes cross the link. Without `segments` the best whole number is taken, of which none is shorter than
n pieces of the library's buffers. Legs and order: `switching`.

Source: Klenk et al., ISCA 2020, section 4; NVLink SHARP as in NCCL `src/device/all_reduce.h` (NVLS); SHARP as in Graham
et al., COM-HPC 2016.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.types.arrays import Array, Number, Whole
from lockstep.base.types.plain import Json
from lockstep.simulate.collectives import switching
from lockstep.simulate.collectives.cost import Counts, LinkLike, Terms
from lockstep.simulate.collectives.registry import Algorithm, register
from lockstep.simulate.collectives.rounds import Rounds, cut
from lockstep.simulate.collectives.shares import Split


def settle(ranks: Number, size_B: Number, link: LinkLike, split: Split, segments: Number | None = None) -> Json:
    """The requested number of segments, or the best."""
    owner = switching.to_owner(link)
    sent_s, alpha_s = size_B / np.asarray(link.bandwidth_Bps, np.float64), np.asarray(link.latency_s, np.float64)
    most = switching.most_pieces(ranks, size_B, link, split)
    if owner:
        many = switching.least(2 * alpha_s, sent_s * (2 - 1 / np.asarray(ranks)), most)
    else:
        many = switching.least(alpha_s, sent_s, most)
    found = switching.settled(segments, (1.0, many), lambda m: _terms(ranks, size_B, m, split, owner).time_s(link))
    return {**found, "owner": owner}


def terms(ranks: Number, size_B: Number, link: LinkLike, split: Split, segments: Number | None = None) -> Terms:
    """Slots of the busiest port."""
    settled = settle(ranks, size_B, link, split, segments)
    return _terms(ranks, size_B, settled["segments"], split, settled["owner"])


def _terms(ranks: Number, size_B: Number, segments: Number, split: Split, owner: bool) -> Terms:
    some: Number = np.where(np.asarray(ranks) > 1, 1.0, 0.0)
    segment_B = split.largest_B(size_B, segments)
    if not owner:
        return Terms(some * (segments + 1.0), some * ((segments + 1) * segment_B))
    share_B, alone = split.largest_B(segment_B, ranks), np.asarray(segments) == 1
    carried_B = (segments + 2) * segment_B + (segments - 1) * share_B
    carried_B = np.where(alone, 2 * (segment_B + share_B), carried_B)
    return Terms(some * np.where(alone, 4.0, 2.0 * segments + 1), some * carried_B)


def counts(ranks: Number, size_B: Number, link: LinkLike, split: Split, segments: Number | None = None) -> Counts:
    """n messages per leg and segment; the switch adds what n - 1 ranks send to what the first did."""
    settled, some = settle(ranks, size_B, link, split, segments), np.asarray(ranks) > 1
    legs, buffers = (4, 2 * ranks + 2) if settled["owner"] else (2, 2 * ranks)
    added_B, moved_B = (ranks - 1) * size_B, np.where(some, buffers * size_B, 0.0)
    return Counts(some * (legs * ranks * settled["segments"]), moved_B, added_B, moved_B / 2)


def write(rounds: Rounds, members: Array, start: Whole, stop: Whole, segments: int = 1, owner: bool = True) -> None:
    """The legs of segment after segment; up of the next one goes before the return of this one."""
    ranks, count = members.shape[1], int(segments)
    if ranks == 1:
        return
    pieces = cut(start, stop, count)
    parts = [cut(pieces[:, k], pieces[:, k + 1], ranks) for k in range(count)]
    legs = switching.Legs(rounds, members, pieces, parts.__getitem__, int(np.max(np.diff(parts[0]))))
    summed = legs.up(0)
    held = legs.handed(0, summed) if owner else summed
    for k in range(count):
        ready = held
        if k + 1 < count:
            summed = legs.up(k + 1)
            held = legs.handed(k + 1, summed) if owner else summed
        legs.down(k, legs.returned(k, ready) if owner else ready)


IN_SWITCH = register(
    Algorithm(
        op="all-reduce",
        name="in-switch",
        terms=terms,
        counts=counts,
        formula="start + (2m+1) alpha + S((m+2)/m + (m-1)/(mn)) beta; many segments: S(1+1/n) beta",
        source="Klenk et al. 2020; Graham et al. 2016",
        message_count="4n of p",
        in_switch=True,
        deployed=True,
        choices=("segments",),
        examples=tuple({"segments": count} for count in (1, 2, 5)),
        settle=settle,
        pieces=lambda ranks, segments=1, **choices: int(ranks) * int(segments),
        copies=lambda ranks, **choices: ranks,
        write=write,
    )
)
