"""`FifoLinks`: packets under way through chains of FIFO links, by a clock that the caller owns.

A packet of s bytes that reaches a link at t leaves its queue at  free = max(t, free) + s / rate  and reaches the next
link at  free + delay (+ jitter): store and forward. A packet is dropped when the queue is full or, at random, lost on
the wire. The simulation turns the clock itself; the emulator of the rig reads it from the machine.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from lockstep.simulate.topology import FifoLink


@dataclass(slots=True)
class LinkCount:
    """What one link has carried; `packets` and `size_B` are those that reached its far end."""

    name: str
    packets: int = 0
    size_B: float = 0.0
    dropped: int = 0
    """Packets that found the queue full."""
    lost: int = 0
    """Packets lost on the wire."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        return asdict(self)


class FifoLinks:
    """State of the links: when each is free, and a heap of packets by the time they reach the end of a link."""

    def __init__(self, links: Sequence[FifoLink], seed: int = 0) -> None:
        self.links = tuple(links)
        self.counts = [LinkCount(link.name) for link in links]
        self._free = [-math.inf] * len(self.links)
        self._last = [-math.inf] * len(self.links)
        self._random = random.Random(seed)
        self._under_way: list[tuple[float, int, Any, float, tuple[int, ...], int]] = []
        self._sequence = 0

    def enter(self, packet: Any, size_B: float, path: tuple[int, ...], at: float) -> None:
        """Puts a packet on the first link of its path at time `at`, which must not go back."""
        self._onto(packet, size_B, path, 0, at)

    @property
    def next_at(self) -> float:
        """When `advance` next has something to do; infinity when nothing is under way."""
        return self._under_way[0][0] if self._under_way else math.inf

    def advance(self, now: float) -> Iterator[tuple[float, Any]]:
        """(time, packet) of everything that reaches the end of its path by `now`, in order."""
        while self._under_way and self._under_way[0][0] <= now:
            at, _, packet, size_B, path, done = heapq.heappop(self._under_way)
            if done:
                count = self.counts[path[done - 1]]
                count.packets += 1
                count.size_B += size_B
            if done == len(path):
                yield at, packet
            else:
                self._onto(packet, size_B, path, done, at)

    def _onto(self, packet: Any, size_B: float, path: tuple[int, ...], done: int, at: float) -> None:
        """Queues the packet on link number `done` of its path, at time `at`."""
        if not path:
            self._push(at, packet, size_B, path, 0)
            return
        number = path[done]
        link, count = self.links[number], self.counts[number]
        begin = max(at, self._free[number])
        if (begin - at) * link.rate_Bps + size_B > link.queue_B:
            count.dropped += 1
            return
        self._free[number] = begin + size_B / link.rate_Bps
        if link.loss_frac and self._random.random() < link.loss_frac:
            count.lost += 1
            return
        arrival = self._free[number] + link.delay_s
        if link.jitter_s:
            arrival = max(arrival + self._random.uniform(0.0, link.jitter_s), self._last[number])
            self._last[number] = arrival
        self._push(arrival, packet, size_B, path, done + 1)

    def _push(self, at: float, packet: Any, size_B: float, path: tuple[int, ...], done: int) -> None:
        self._sequence += 1
        heapq.heappush(self._under_way, (at, self._sequence, packet, size_B, path, done))
