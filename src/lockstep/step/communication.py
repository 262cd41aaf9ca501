"""`Network`: what a group of the rank grid pays to communicate on a cluster. Prices come from `lockstep.collectives`.

A group spans some children of each level. All groups of a kind talk at once, so each of its ranks has its own share of
the links of its node: `Cluster.bandwidth_per_device_Bps`, and g members in a node leave it through g shares.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from typing import Any, TypeAlias

import numpy as np

from lockstep.collectives import best_on_levels_time_s
from lockstep.hardware import Cluster
from lockstep.layout import LayoutGrid, span

Levels: TypeAlias = list[tuple[Any, float, float, float]]
"""(children spanned, latency_s, bandwidth_Bps of one rank, reduce_s_per_B) at each level, innermost first."""


@dataclass(frozen=True, slots=True)
class Network:
    """A cluster seen by the groups of a layout grid."""

    cluster: Cluster
    grid: LayoutGrid
    known: dict[tuple[str, ...], Levels] = field(default_factory=dict, compare=False, repr=False)

    def levels(self, axes: tuple[str, ...]) -> Levels:
        """The levels that the group over `axes` spans, found once."""
        if axes not in self.known:
            self.known[axes] = self._levels(axes)
        return self.known[axes]

    def _levels(self, axes: tuple[str, ...]) -> Levels:
        indices = range(len(self.cluster.levels))
        where = span(self.grid, axes, [self.cluster.devices_per_child(i) for i in indices])
        links = [self.cluster.link_per_device(i) for i in indices]
        return [
            (where.children(i), links[i].latency_s, links[i].bandwidth_Bps, links[i].reduce_s_per_B) for i in indices
        ]

    def shard_levels(self) -> Levels:
        """As `levels`, of the ranks that share one sharded copy: the inner part of the data ranks."""
        left: Any = self.grid.shard_ranks
        found: Levels = []
        for ranks, *link in self.levels(("cp", "ep", "dp")):
            here = np.gcd(left, ranks)
            found.append((here, *link))
            left = left // here
        return found

    def replica_levels(self) -> Levels:
        """As `levels`, of the ranks that hold the same shard in different copies (HSDP); one rank without copies."""
        whole, inner = self.levels(("cp", "ep", "dp")), self.shard_levels()
        return [(one[0] // held[0], *one[1:]) for one, held in zip(whole, inner, strict=True)]

    def meets_data(self, axes: tuple[str, ...]) -> Any:
        """Where the group over `axes` and the ranks that share gradients use links of the same level."""
        pairs = zip(self.levels(axes), self.levels(("cp", "ep", "dp")), strict=True)
        return reduce(np.logical_or, ((one[0] > 1) & (data[0] > 1) for one, data in pairs))

    def met_s_per_B(self) -> Any:
        """Seconds per byte of a gather or scatter among the data ranks on levels that tensor or context groups use."""
        seconds: Any = 0.0
        inside: Any = 1
        near, far = self.levels(("tp",)), self.levels(("cp",))
        for data, one, other in zip(self.levels(("cp", "ep", "dp")), near, far, strict=True):
            ranks, met = data[0], (one[0] > 1) | (other[0] > 1)
            seconds = seconds + np.where(met, (ranks - 1) / ranks / inside / data[2], 0.0)
            inside = inside * ranks
        return seconds

    def send(self, axis: str, size_B: Any) -> Any:
        """Seconds of a message to the next rank along `axis`, at the outermost level that its group spans."""
        seconds: Any = 0.0
        for ranks, latency_s, bandwidth_Bps, _ in self.levels((axis,)):
            seconds = np.where(ranks > 1, latency_s + size_B / bandwidth_Bps, seconds)
        return seconds


def collective(op: str, levels: Levels, size_B: Any) -> Any:
    """Seconds of `op` on a buffer of `size_B` by the way across the levels that is fastest at that size."""
    return best_on_levels_time_s(op, levels, size_B)
