"""Reductions and copies inside the switch that joins a group: legs of one segment, time, best number of segments.

The buffer goes through the switch in m segments. Of each, in this order,
    up      every rank sends its elements, which the switch adds                    one slot, a = alpha + s beta
    owned   the switch hands every rank its share of the sum                         b = alpha + o beta
    return  every rank sends that share back                                         b
    down    the switch sends everyone the segment                                    a
    s, o    the largest segment and the largest share of one
Ranks send and receive at once, and up of a segment does not wait for down of the one before it. A switch with
`to_owner` (NVLink) hands sums to their owners, which multicast them back: a rank sends and receives S (1 + 1/n). One
without (InfiniBand) sends the sum to everyone itself: S each way. Slots are equally long, as long as the largest
segment takes; the switch adds as fast as its ports receive.

Source: B. Klenk, N. Jiang, G. Thorson, L. Dennison, "An in-network architecture for accelerating shared-memory
multiprocessor collectives", ISCA 2020, section 4; R. Graham et al., "Scalable hierarchical aggregation and reduction
protocol (SHARP)", COM-HPC 2016, section 3.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from lockstep.base.types.arrays import Array, Number, Whole
from lockstep.base.types.plain import Json
from lockstep.simulate.collectives.cost import Counts, LinkLike, Terms
from lockstep.simulate.collectives.rounds import Rounds, cut
from lockstep.simulate.collectives.shares import Split, whole_choice
from lockstep.simulate.program import Kind

MAX_SEGMENTS = 4096
TimeOf = Callable[[Number], Number]
Edges = Callable[[int], Array]
"""Segment -> boundaries [groups, ranks + 1] of the shares of it that ranks own."""


def to_owner(link: LinkLike) -> bool:
    """Whether the switch behind a link hands sums to one rank each; a link that does not say is as NVLink."""
    return bool(getattr(link, "to_owner", True))


def most_segments(size_B: Number, split: Split) -> Number:
    """One per element, and no more than MAX_SEGMENTS."""
    return MAX_SEGMENTS if split.element_B == 0.0 else np.clip(split.elements(size_B), 1, MAX_SEGMENTS)


def most_pieces(ranks: Number, size_B: Number, link: LinkLike, split: Split) -> Number:
    """As many, of which every rank's share has the link's least bytes."""
    most, piece_B = most_segments(size_B, split), getattr(link, "piece_B", 0.0)
    return most if piece_B == 0.0 else np.maximum(1.0, np.minimum(most, np.floor(size_B / (ranks * piece_B))))


def least(per_segment_s: Number, divided_s: Number, most: Number) -> Number:
    """The whole m of 1 .. `most` with the least  m per_segment_s + divided_s / m.

    m is better than m + 1 as long as m (m + 1) >= divided_s / per_segment_s.
    """
    floor_s = np.asarray(divided_s) / MAX_SEGMENTS**2 + np.finfo(np.float64).tiny
    ratio = divided_s / np.maximum(per_segment_s, floor_s)
    found: Number = np.clip(np.ceil((np.sqrt(1 + 4 * ratio) - 1) / 2), 1, most)
    return found


def settled(segments: Number | None, candidates: Sequence[Number], time_of: TimeOf) -> Json:
    """The requested number of segments, or the fastest of `candidates`; ties go to the first."""
    if segments is not None:
        return {"segments": whole_choice("segments", segments)}
    best, best_s = candidates[0], time_of(candidates[0])
    for other in candidates[1:]:
        other_s = time_of(other)
        best, best_s = np.where(other_s < best_s, other, best), np.minimum(best_s, other_s)
    return {"segments": best}


class Legs:
    """Writes the legs of every segment, for many equal groups at once; group g has switch `first_switch + g`."""

    def __init__(self, rounds: Rounds, members: Array, segments: Array, owned: Edges, share_elems: int) -> None:
        """`segments`: boundaries [groups, m + 1]; `owned`: those of shares in each, of at most `share_elems`."""
        groups, ranks = members.shape
        self.rounds, self.segments, self.owned = rounds, segments, owned
        self.members = members.ravel()
        self.switch = np.repeat(rounds.first_switch + np.arange(groups), ranks)
        self.place = np.tile(np.arange(ranks), groups)
        self.shape = (groups, ranks)
        self.began = rounds.last[self.members].copy()
        names = [("send", "recv") if i == 0 else (f"send{i + 1}", f"recv{i + 1}") for i in range(ranks)]
        streams = np.array([[rounds.builder.stream(name) for name in pair] for pair in names])
        self.sends, self.receives = streams[self.place].T
        inboxes = [rounds.builder.name("data"), *(rounds.builder.name(f"port{i + 1}") for i in range(1, ranks))]
        self.inbox = np.array(inboxes)[self.place]
        largest = int(np.max(np.diff(segments)))
        self.slot_s, self.share_s = (self._seconds(elems) for elems in (largest, min(share_elems, largest)))

    def _seconds(self, elems: int) -> float:
        link = self.rounds.over
        return 0.0 if link is None else float(link.latency_s + elems * self.rounds.element_B / link.bandwidth_Bps)

    def _to_switch(self, first: Array, last: Array, seconds: float, after: Array, inbox: Array | str) -> Array:
        """Messages of all members to their switches; returns the receives."""
        build, size_B = self.rounds.builder.extend, (last - first) * self.rounds.element_B
        chunk = {"size_B": size_B, "chunk_start": first, "chunk_stop": last, "duration_s": seconds}
        self.rounds.last[self.members, 0] = build(
            Kind.SEND, self.members, peer=self.switch, stream=self.rounds.send_stream, after=after, **chunk
        )
        return build(Kind.RECV, self.switch, peer=self.members, stream=self.receives, buffer=inbox, **chunk)

    def _from_switch(self, first: Array, last: Array, seconds: float, after: Array) -> Array:
        """Messages of the switches to all their members; returns the receives."""
        build, size_B = self.rounds.builder.extend, (last - first) * self.rounds.element_B
        chunk = {"size_B": size_B, "chunk_start": first, "chunk_stop": last, "duration_s": seconds}
        build(Kind.SEND, self.switch, peer=self.members, stream=self.sends, after=after, **chunk)
        received = build(
            Kind.RECV, self.members, peer=self.switch, stream=self.rounds.recv_stream, after=self.began, **chunk
        )
        self.rounds.last[self.members, 1] = received
        return received

    def _everyone(self, done: Array) -> Array:
        """Per member, what all members of its group did."""
        return np.repeat(done.reshape(self.shape), self.shape[1], axis=0)

    def up(self, k: int) -> Array:
        """Every rank's elements of segment k, added in the switch one after another; returns the last addition."""
        first, last = (np.repeat(self.segments[:, place], self.shape[1]) for place in (k, k + 1))
        received = self._to_switch(first, last, self.slot_s, self.began, self.inbox)
        copied, added = received[self.place == 0], self.place > 0
        if not added.any():
            return self._everyone(received)
        chunk = {"size_B": (last - first) * self.rounds.element_B, "chunk_start": first, "chunk_stop": last}
        waits = np.stack((received, np.repeat(copied, self.shape[1])), axis=1)
        ordered = np.flatnonzero(self.place > 1)
        done = received.copy()
        done[added] = self.rounds.builder.extend(
            Kind.REDUCE, self.switch[added], stream=self.receives[added], source=self.inbox[added], buffer="data",
            after=waits[added], duration_s=0.0, **{name: values[added] for name, values in chunk.items()},
        )  # fmt: skip
        self.rounds.builder.depend(done[ordered], done[ordered - 1])
        return np.repeat(done.reshape(self.shape)[:, -1:], self.shape[1], axis=0)

    def handed(self, k: int, summed: Array) -> Array:
        """Every rank's share of segment k to it."""
        edges = self.owned(k)
        return self._from_switch(edges[:, :-1].ravel(), edges[:, 1:].ravel(), self.share_s, summed)

    def returned(self, k: int, held: Array) -> Array:
        """Every rank's share of segment k back to the switch; `held`: what each rank waits for."""
        edges = self.owned(k)
        return self._everyone(self._to_switch(edges[:, :-1].ravel(), edges[:, 1:].ravel(), self.share_s, held, "data"))

    def down(self, k: int, known: Array) -> None:
        """Segment k to everyone."""
        first, last = (np.repeat(self.segments[:, place], self.shape[1]) for place in (k, k + 1))
        self._from_switch(first, last, self.slot_s, known)


def own_parts(shares: Array, segments: Array) -> Edges:
    """What each rank's share [groups, ranks + 1] has in common with segment k of [groups, m + 1]; may be nothing."""

    def edges(k: int) -> Array:
        return np.clip(shares, segments[:, k : k + 1], segments[:, k + 1 : k + 2])

    return edges


def one_way_terms(ranks: Number, size_B: Number, link: LinkLike, split: Split, segments: Number | None = None) -> Terms:
    """m slots of the busiest port and one share: a reduce-scatter (up, owned) or an all-gather (return, down)."""
    m = one_way_settle(ranks, size_B, link, split, segments)["segments"]
    return one_way_time(ranks, size_B, m, split)


def one_way_time(ranks: Number, size_B: Number, segments: Number, split: Split) -> Terms:
    """The same with a number of segments that is settled."""
    segment_B = split.largest_B(size_B, segments)
    share_B = np.minimum(segment_B, split.largest_B(size_B, ranks))
    some = np.asarray(ranks) > 1
    return Terms(some * (segments + 1.0), some * (segments * segment_B + share_B))


def one_way_settle(ranks: Number, size_B: Number, link: LinkLike, split: Split, segments: Number | None = None) -> Json:
    """The requested number of segments, or the best: one, or enough that the last share is short."""
    many = least(np.asarray(link.latency_s, np.float64), size_B / link.bandwidth_Bps, most_segments(size_B, split))
    return settled(segments, (1.0, many), lambda m: one_way_time(ranks, size_B, m, split).time_s(link))


def one_way_pieces(ranks: int, segments: int = 1, **choices: object) -> int:
    """Of which segments and shares are both whole numbers."""
    return math.lcm(int(ranks), int(segments))


def one_way_counts(
    ranks: Number, size_B: Number, link: LinkLike, split: Split, segments: Number | None = None, *, up: bool
) -> Counts:
    """n messages to and n from the switch per segment; n buffers one way, `up` to it or down, one the other."""
    m = one_way_settle(ranks, size_B, link, split, segments)["segments"]
    some = np.where(np.asarray(ranks) > 1, 1.0, 0.0)
    switch_B, reduced_B = (some * size_B, (ranks - 1) * size_B) if up else (some * (ranks * size_B), 0.0)
    return Counts(some * (2 * ranks * m), some * ((ranks + 1) * size_B), reduced_B, switch_B)


def one_way_legs(rounds: Rounds, members: Array, start: Whole, stop: Whole, segments: int) -> Legs:
    """Legs in which every rank owns an equal part of the whole buffer."""
    pieces, shares = cut(start, stop, int(segments)), cut(start, stop, members.shape[1])
    return Legs(rounds, members, pieces, own_parts(shares, pieces), int(np.max(np.diff(shares))))
