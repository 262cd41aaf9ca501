"""`Topology`: hosts and the directed FIFO links that a packet between two of them crosses.

    flat_topology          a private link for every ordered pair: nobody waits for anybody
    star_topology          one NIC per host, a link up to a switch and a link down; each has half the delay
    uplinks_topology       nodes of several hosts: private links inside, one slow link up and one down per node

`lockstep.simulate.play.packets` predicts on it and `lockstep.run.rig` builds it for real traffic, from the same object.

`FifoLinks`: packets under way through chains of FIFO links, by a clock that the caller owns.

A packet of s bytes that reaches a link at t leaves its queue at  free = max(t, free) + s / rate  and reaches the next
link at  free + delay (+ jitter): store and forward. A packet is dropped when the queue is full or, at random, lost on
the wire. The simulation turns the clock itself; the emulator of the rig reads it from the machine.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Iterator, Sequence
from itertools import permutations
from typing import Any

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json, picked


@dataclass(frozen=True, slots=True)
class FifoLink:
    """One direction of a cable: a queue, a rate, a delay; optionally jitter, loss and a longest queue."""

    name: str
    rate_Bps: float
    delay_s: float
    jitter_s: float = 0.0
    """A packet takes up to this much longer, uniformly; packets never overtake one another."""
    loss_frac: float = 0.0
    queue_B: float = math.inf
    """A packet that would make the queue longer is dropped."""

    def __post_init__(self) -> None:
        if not self.rate_Bps > 0:
            raise BadInput(f"link {self.name}: rate_Bps must be above 0, got {self.rate_Bps:g}")
        for name, value in (("delay_s", self.delay_s), ("jitter_s", self.jitter_s)):
            if not 0 <= value < math.inf:
                raise BadInput(f"link {self.name}: {name} must be finite and at least 0, got {value:g}")
        if not 0 <= self.loss_frac < 1:
            raise BadInput(f"link {self.name}: loss_frac must be from 0 to below 1, got {self.loss_frac:g}")
        if not self.queue_B > 0:
            raise BadInput(f"link {self.name}: queue_B must be above 0, got {self.queue_B:g}")


@dataclass(frozen=True, slots=True)
class Topology:
    """`paths[a][b]`: numbers of the links from host a to host b in order; empty for a host to itself."""

    name: str
    links: tuple[FifoLink, ...]
    paths: tuple[tuple[tuple[int, ...], ...], ...]

    @property
    def hosts(self) -> int:
        """Number of hosts."""
        return len(self.paths)

    @property
    def is_random(self) -> bool:
        """Whether a link has jitter or loses packets."""
        return any(link.jitter_s or link.loss_frac for link in self.links)

    def path(self, source: int, destination: int) -> list[FifoLink]:
        """The links from one host to another."""
        return [self.links[number] for number in self.paths[source][destination]]

    def delay_s(self, source: int, destination: int) -> float:
        """One-way delay of the path, without queues and without sending time."""
        return sum(link.delay_s for link in self.path(source, destination))

    def rate_Bps(self, source: int, destination: int) -> float:
        """Rate of the slowest link of the path."""
        return min((link.rate_Bps for link in self.path(source, destination)), default=math.inf)


def flat_topology(
    hosts: int, rate_Bps: float, delay_s: float, jitter_s: float = 0.0, loss_frac: float = 0.0
) -> Topology:
    """A private link from every host to every other one."""
    pairs = list(permutations(range(_counted(hosts)), 2))
    links = tuple(FifoLink(f"{a} -> {b}", rate_Bps, delay_s, jitter_s, loss_frac) for a, b in pairs)
    return Topology("flat", links, _paths(hosts, {pair: (number,) for number, pair in enumerate(pairs)}))


def star_topology(
    hosts: int, rate_Bps: float, delay_s: float, jitter_s: float = 0.0, loss_frac: float = 0.0
) -> Topology:
    """Hosts around a switch; `delay_s` from host to host, jitter and loss on the way up."""
    up = [FifoLink(f"host {h} up", rate_Bps, delay_s / 2, jitter_s, loss_frac) for h in range(_counted(hosts))]
    down = [FifoLink(f"host {h} down", rate_Bps, delay_s / 2) for h in range(hosts)]
    return Topology("star", (*up, *down), _paths(hosts, {(a, b): (a, hosts + b) for a, b in _pairs(hosts)}))


def uplinks_topology(
    node_hosts: Sequence[int], rate_Bps: float, delay_s: float, inner_rate_Bps: float, inner_delay_s: float
) -> Topology:
    """Nodes of `node_hosts` hosts each, numbered node by node.

    Private links of the inner rate and delay inside a node; between nodes the uplink of one and the downlink of the
    other, each `rate_Bps`, together `delay_s`.
    """
    node = [n for n, count in enumerate(node_hosts) for _ in range(_counted(count, 1))]
    nodes = len(node_hosts)
    links = [FifoLink(f"node {n} up", rate_Bps, delay_s / 2) for n in range(nodes)]
    links += [FifoLink(f"node {n} down", rate_Bps, delay_s / 2) for n in range(nodes)]
    paths: dict[tuple[int, int], tuple[int, ...]] = {}
    for a, b in _pairs(_counted(len(node))):
        if node[a] == node[b]:
            paths[a, b] = (len(links),)
            links.append(FifoLink(f"{a} -> {b}", inner_rate_Bps, inner_delay_s))
        else:
            paths[a, b] = (node[a], nodes + node[b])
    return Topology("uplinks", tuple(links), _paths(len(node), paths))


def _counted(hosts: int, minimum: int = 2) -> int:
    if hosts < minimum:
        raise BadInput(f"a topology needs at least {minimum} hosts, got {hosts}", "hosts")
    return hosts


def _pairs(hosts: int) -> list[tuple[int, int]]:
    return list(permutations(range(hosts), 2))


def _paths(hosts: int, known: dict[tuple[int, int], tuple[int, ...]]) -> tuple[tuple[tuple[int, ...], ...], ...]:
    return tuple(tuple(known.get((a, b), ()) for b in range(hosts)) for a in range(hosts))


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

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self)


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

    def enter(self, packet: object, size_B: float, path: tuple[int, ...], at: float) -> None:
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

    def _onto(self, packet: object, size_B: float, path: tuple[int, ...], done: int, at: float) -> None:
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

    def _push(self, at: float, packet: object, size_B: float, path: tuple[int, ...], done: int) -> None:
        self._sequence += 1
        heapq.heappush(self._under_way, (at, self._sequence, packet, size_B, path, done))
