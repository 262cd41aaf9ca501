"""`Network`: what a group of the rank grid pays to communicate on a cluster. Prices come from `lockstep.collectives`.

A group spans some children of each level. All groups of a kind talk at once, so one that has g members under a child
of a level gets g shares of that child's links: its rate there is g * bandwidth_per_device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lockstep.collectives import LevelLink, best_on_levels
from lockstep.hardware import Cluster
from lockstep.layout import LayoutGrid, span


@dataclass(frozen=True, slots=True)
class Network:
    """A cluster seen by the groups of a layout grid."""

    cluster: Cluster
    grid: LayoutGrid

    def levels(self, axes: Sequence[str]) -> list[LevelLink]:
        """Children spanned, latency and rate per child at each level, innermost first, of the group over `axes`."""
        indices = range(len(self.cluster.levels))
        where = span(self.grid, axes, [self.cluster.devices_per_child(i) for i in indices])
        return [
            LevelLink(
                where.children(i),
                self.cluster.levels[i].link.latency_s,
                where.members[i] * self.cluster.bandwidth_per_device_Bps(i),
            )
            for i in indices
        ]

    def shard_levels(self) -> list[LevelLink]:
        """As `levels`, of the ranks that share one sharded copy: the inner part of the data ranks."""
        return _inner(self.levels(("cp", "ep", "dp")), self.grid.shard_ranks)

    def replica_levels(self) -> list[LevelLink]:
        """As `levels`, of the ranks that hold the same shard in different copies (HSDP); one rank when there are none."""
        whole, inner = self.levels(("cp", "ep", "dp")), self.shard_levels()
        return [
            LevelLink(np.maximum(w.ranks // i.ranks, 1), w.latency_s, w.bandwidth_Bps / _members(inner, k))
            for k, (w, i) in enumerate(zip(whole, inner, strict=True))
        ]

    def send(self, axis: str, size_B: Any) -> Any:
        """Seconds of one message of `size_B` to the next rank of the group over `axis`, at the outermost level it spans."""
        seconds: Any = 0.0
        for index, level in enumerate(self.levels((axis,))):
            one = level.latency_s + size_B / self.cluster.bandwidth_per_device_Bps(index)
            seconds = np.where(level.ranks > 1, one, seconds)
        return seconds


def collective(op: str, levels: Sequence[LevelLink], size_B: Any) -> Any:
    """Seconds of `op` on a buffer of `size_B` by the algorithm that is fastest at that size on those levels."""
    return best_on_levels(op, levels, size_B)


def _inner(levels: Sequence[LevelLink], ranks: Any) -> list[LevelLink]:
    """The innermost `ranks` ranks of a group: each level takes as many children as are still wanted."""
    left, found = ranks, []
    for level in levels:
        here = np.gcd(left, level.ranks)
        found.append(LevelLink(here, level.latency_s, level.bandwidth_Bps))
        left = left // here
    return found


def _members(levels: Sequence[LevelLink], index: int) -> Any:
    """Ranks of the group inside one child of level `index`."""
    product: Any = 1
    for level in levels[:index]:
        product = product * level.ranks
    return product
