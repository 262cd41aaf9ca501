"""Networks with shared capacities: which resources a message between two ranks crosses.

A resource is one direction of a link or port with a capacity in B/s. Routes are fixed (no adaptive routing).

    star_network(n, rate)  every rank has one port up and one down to a switch that never blocks
    ring_network(n, rate)  every rank has a link to each neighbour; a message takes the shorter way, ties upwards
    tree_network(cluster)  every child of a level has links_per_child links up and down; a message goes up to the level
                         where the ranks meet and down again. The innermost level (NVLink) carries only messages
                         inside one of its units: a message to another node leaves through the NICs
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Array
from lockstep.simulate.collectives import PlainLink
from lockstep.simulate.machine import Machine


@dataclass(frozen=True, eq=False, slots=True)
class Network:
    """Resources with capacities, and the route and latency of a message."""

    ranks: int
    capacity_Bps: Array
    names: tuple[str, ...]
    route: Callable[[int, int], Sequence[int]]
    """(sender, receiver) -> resources crossed."""
    latency_s: Callable[[int, int], float]
    reduce_s_per_B: float | Callable[[Array, Array], Array] = 0.0
    """Seconds per reduced byte, or (senders, receivers) -> those of what came that way."""

    def __post_init__(self) -> None:
        if not (self.capacity_Bps > 0).all():
            raise BadInput(f"capacities must be positive, got {self.capacity_Bps.min()} B/s")


def star_network(ranks: int, bandwidth_Bps: float, latency_s: float = 0.0, reduce_s_per_B: float = 0.0) -> Network:
    """Ranks around one switch."""
    names = tuple(f"rank {r} {way}" for way in ("up", "down") for r in range(ranks))
    return Network(
        ranks, np.full(2 * ranks, float(bandwidth_Bps)), names,
        lambda a, b: (a, ranks + b), lambda a, b: latency_s, reduce_s_per_B,
    )  # fmt: skip


def ring_network(
    ranks: int, bandwidth_Bps: float, latency_s: float = 0.0, reduce_s_per_B: float = 0.0,
    first_Bps: float | None = None,
) -> Network:  # fmt: skip
    """Ranks in a circle; resource r is the link r -> r + 1, resource ranks + r the link r -> r - 1. Latency per hop.

    `first_Bps`: bandwidth of the link 0 -> 1 where it is not that of the others.
    """
    rates = np.full(2 * ranks, float(bandwidth_Bps))
    rates[0] = bandwidth_Bps if first_Bps is None else first_Bps
    names = tuple(f"{r} -> {(r + step) % ranks}" for step in (1, -1) for r in range(ranks))

    def route(a: int, b: int) -> list[int]:
        up = (b - a) % ranks
        if 2 * up <= ranks:
            return [(a + i) % ranks for i in range(up)]
        return [ranks + (a - i) % ranks for i in range(ranks - up)]

    return Network(
        ranks, rates, names, route, lambda a, b: latency_s * len(route(a, b)), reduce_s_per_B,
    )  # fmt: skip


def ring_on(link: PlainLink, ranks: int, first_Bps: float | None = None) -> Network:
    """`ring_network` of links that are all like this one, but for the bandwidth of the first."""
    latency_s, rate_Bps = float(link.latency_s), float(link.bandwidth_Bps)
    return ring_network(ranks, rate_Bps, latency_s, float(link.reduce_s_per_B), first_Bps)


def tree_network(cluster: Machine) -> Network:
    """Network of a cluster (levels innermost first); rank r is device r. Latency is that of the level where they meet.

    A child's links at a level are its ports: device d of a child with D devices and L links uses port d L // D (a
    rail); with L > D every device has L / D links to itself.
    """
    ports = _tree_ports(cluster)
    inside = [1]
    for level in cluster.levels:
        inside.append(inside[-1] * level.size)
    names = tuple(
        f"{level.name} {child} port {port} {way}"
        for (_, count, _), level, size in zip(ports, cluster.levels, inside, strict=False)
        for way in ("up", "down")
        for child in range(cluster.num_devices // size)
        for port in range(count)
    )

    def meeting(a: int, b: int) -> int:
        return next(i for i in range(len(ports)) if a // inside[i + 1] == b // inside[i + 1])

    def port(level: int, device: int, down: int) -> int:
        first, count, _ = ports[level]
        child, local = divmod(device, inside[level])
        children = cluster.num_devices // inside[level]
        return int(first + (down * children + child) * count + local * count // inside[level])

    def route(a: int, b: int) -> list[int]:
        top = meeting(a, b)
        crossed = range(1, top + 1) if top else range(1)
        return [port(level, a, 0) for level in crossed] + [port(level, b, 1) for level in crossed]

    capacity = [np.full(2 * count * (cluster.num_devices // size), rate)
                for (_, count, rate), size in zip(ports, inside, strict=False)]  # fmt: skip
    latencies = [float(level.link.latency_s) for level in cluster.levels]
    gammas = np.array([getattr(level.link, "reduce_s_per_B", 0.0) for level in cluster.levels], dtype=np.float64)

    def gamma(senders: Array, receivers: Array) -> Array:
        apart = [senders // unit != receivers // unit for unit in inside[1:-1]]
        return np.asarray(gammas[np.sum(apart, axis=0, dtype=np.int64)])

    return Network(
        cluster.num_devices, np.concatenate(capacity), names, route, lambda a, b: latencies[meeting(a, b)], gamma
    )  # fmt: skip


def _tree_ports(cluster: Machine) -> list[tuple[int, int, float]]:
    """Per level: (number of its first resource, ports per child, rate of a port in B/s)."""
    result = []
    first, devices = 0, 1
    for level in cluster.levels:
        link = level.link.effective() if hasattr(level.link, "effective") else level.link
        count = min(level.links_per_child, devices)
        result.append((first, count, link.bandwidth_Bps * level.links_per_child / count))
        first += 2 * count * (cluster.num_devices // devices)
        devices *= level.size
    return result
