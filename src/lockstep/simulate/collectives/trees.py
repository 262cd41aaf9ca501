"""Pipelined binary trees on one port: shape, time and rounds of one heap-shaped tree, or of two complementary ones.

Heap shape: place 0 is the root, place p has children 2p + 1 (left) and 2p + 2 (right); height H = floor(log2 n).
Reducing m segments up the tree, a parent receives the left child's segment in one slot, the right child's in the next.
    first segment at the root after  D = 2H slots  (2H - 1 when n = 2^H: the lowest parent has one child)
    then one more every  w = min(2, n - 1)  slots, which is the work of the root's receive port
    time = D u_0 + w (u_1 + ... + u_{m-1}),   u_k = alpha + s_k (beta + gamma),  s_0 the largest segment
Broadcasting is the same backwards in time, with gamma = 0.

Two trees: every rank is inner in at most one, and is a left child in one and a right child in the other, so that the
slots never collide and both trees run at full speed.

Source: P. Sanders, J. Speck, J. L. Traff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan",
Parallel Computing 35 (2009). The pairing of places below is ours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Array, Number, Whole
from lockstep.simulate.collectives.cost import LinkLike, Terms
from lockstep.simulate.collectives.rounds import Rounds, cut
from lockstep.simulate.collectives.shares import Split, floor_log2

MAX_SEGMENTS = 4096


def slots(ranks: Number) -> tuple[Number, Number]:
    """(D, w): slots until the first segment is at the root, and slots per further segment."""
    height = floor_log2(ranks)
    lone_child = (np.ldexp(1.0, height) == ranks) & (np.asarray(ranks) > 1)
    return 2.0 * height - lone_child, np.minimum(2.0, np.asarray(ranks) - 1.0)


def reduce_and_broadcast(ranks: Number, size_B: Number, segments: Number, split: Split) -> Terms:
    """Terms of reducing `size_B` to the root of one tree in `segments` segments, then broadcasting it."""
    first, later = slots(ranks)
    segment_B = split.largest_B(size_B, segments)
    carried_B = first * segment_B + later * (size_B - segment_B)
    return Terms(2 * (first + later * (segments - 1)), 2 * carried_B, carried_B)


def best_segments(ranks: Number, size_B: Number, link: LinkLike, split: Split) -> Number:
    """The whole number of segments with the least time, at most MAX_SEGMENTS and one per element.

    time(m) = const + 2 w alpha m + (D - w)(2 beta + gamma) S/m, convex: the better of the two whole numbers at its
    minimum.
    """
    first, later = slots(ranks)
    per_B = 2 / np.asarray(link.bandwidth_Bps, dtype=np.float64) + getattr(link, "reduce_s_per_B", 0.0)
    gain_s = np.maximum(first - later, 0.0) * per_B * size_B
    price_s = 2 * later * np.asarray(link.latency_s, dtype=np.float64)
    most = MAX_SEGMENTS if split.element_B == 0.0 else np.clip(split.elements(size_B), 1, MAX_SEGMENTS)
    # Where latency is (almost) free the minimum lies beyond the cap, and the cap it is.
    ideal = np.sqrt(gain_s / np.maximum(price_s, gain_s / MAX_SEGMENTS**2 + np.finfo(np.float64).tiny))
    best = np.ones_like(ideal)
    for candidate in (np.floor(ideal), np.ceil(ideal)):
        candidate = np.clip(candidate, 1, most)
        better = _time_s(ranks, size_B, candidate, link, split) < _time_s(ranks, size_B, best, link, split)
        best = np.where(better, candidate, best)
    return best


def _time_s(ranks: Number, size_B: Number, segments: Number, link: LinkLike, split: Split) -> Number:
    return reduce_and_broadcast(ranks, size_B, segments, split).time_s(link)


@dataclass(frozen=True, slots=True)
class Tree:
    """One tree: `member[place]` is the group member at each heap place; it carries elements [start, stop)."""

    member: Array
    start: Whole
    stop: Whole


def complementary_places(ranks: int) -> Array:
    """Member at each place of the second tree [ranks], whose first tree has member p at place p.

    n even: the mirror image n - 1 - p. n odd: n - p, except that an odd leaf r of the first tree next to the middle
    becomes the root and member 0 takes its place n - r. Parities differ, so left children become right children.
    """
    place = np.arange(ranks)
    if ranks % 2 == 0:
        return ranks - 1 - place
    if ranks == 1:
        return place
    root = (ranks - 1) // 2 if (ranks - 1) // 2 % 2 else (ranks + 1) // 2
    member = (ranks - place) % ranks
    member[0], member[ranks - root] = root, 0
    return member


def write_reduce_and_broadcast(rounds: Rounds, members: Array, trees: Sequence[Tree], segments: int) -> None:
    """Reduces every tree's elements to its root, slot by slot, then broadcasts by the same slots backwards.

    `members`: [groups, places].
    """
    ranks = members.shape[1]
    schedule = list(_slots(ranks, segments))
    groups = np.arange(members.shape[0])[:, np.newaxis]
    pieces = [cut(tree.start, tree.stop, segments) for tree in trees]
    for upwards in (True, False):
        # arrived[tree][group, place]: what completed the segment that this place passes on next.
        arrived = [rounds.last[members[:, tree.member], 1] for tree in trees]
        for macro in schedule if upwards else reversed(schedule):
            known = [array.copy() for array in arrived]
            for child, segment in macro if upwards else reversed(macro):
                parent = (child - 1) // 2
                source, target = (child, parent) if upwards else (parent, child)
                for index, tree in enumerate(trees):
                    first, last = pieces[index][:, segment], pieces[index][:, segment + 1]
                    arrived[index][groups, target] = rounds.messages(
                        members[:, tree.member[source]], members[:, tree.member[target]], first, last,
                        reduce=upwards, after=known[index][:, source],
                    )  # fmt: skip


def _slots(ranks: int, segments: int) -> Iterator[list[tuple[Array, Array]]]:
    """Macro-rounds of two slots: (children that send, the segment each sends); left children first.

    A place at depth d sends segment k in macro-round H - d + k.
    """
    place = np.arange(1, ranks)
    height = ranks.bit_length() - 1
    wait = height - (np.frexp(place + 1.0)[1] - 1)
    for macro in range(height + segments - 1 if ranks > 1 else 0):
        segment = macro - wait
        live = (segment >= 0) & (segment < segments)
        yield [(place[live & left], segment[live & left]) for left in (place % 2 == 1, place % 2 == 0)]
