"""`Network`: the groups of a layout grid as levels of a cluster, ready for the formulas of `simulate.parallel`.

A group spans some children of each level. All groups of a kind talk at once, so each of its ranks has its own share of
the links of its node: `Cluster.group_levels`, and g members in a node leave it through g shares.
"""

from __future__ import annotations

from lockstep.base.records import dataclass, field
from lockstep.describe.hardware import Cluster
from lockstep.price.layout import LayoutGrid, span
from lockstep.simulate.parallel.data.zero import Groups
from lockstep.simulate.parallel.group import Levels, shared_s_per_B

DATA = ("cp", "dp")
"""Axes of the ranks that hold the same dense parameters."""


@dataclass(frozen=True, slots=True)
class Network:
    """A cluster seen by the groups of a layout grid."""

    cluster: Cluster
    grid: LayoutGrid
    known: dict[tuple[str, ...], Levels] = field(default_factory=dict, compare=False, repr=False)

    def levels(self, *axes: str) -> Levels:
        """The levels that the group over `axes` spans, found once."""
        if axes not in self.known:
            self.known[axes] = self._levels(axes)
        return self.known[axes]

    def _levels(self, axes: tuple[str, ...]) -> Levels:
        indices = range(len(self.cluster.levels))
        where = span(self.grid, axes, [self.cluster.devices_per_child(i) for i in indices])
        return self.cluster.group_levels([where.children(i) for i in indices])

    @property
    def data(self) -> Groups:
        """The groups over which training states are divided or repeated."""
        whole, near, far = self.levels(*DATA), self.levels("tp"), self.levels("cp")
        return Groups(whole, self.levels("edp"), self.grid.shard_ranks, shared_s_per_B(whole, (near, far)))
