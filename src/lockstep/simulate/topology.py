"""`Topology`: hosts and the directed FIFO links that a packet between two of them crosses.

    flat_topology          a private link for every ordered pair: nobody waits for anybody
    star_topology          one NIC per host, a link up to a switch and a link down; each has half the delay
    uplinks_topology       nodes of several hosts: private links inside, one slow link up and one down per node

`lockstep.simulate.packets` predicts on it and `lockstep.measure.rig` builds it for real traffic, from the same object.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

from lockstep.errors import BadInput


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
