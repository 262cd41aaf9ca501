"""`Network`: the groups of a layout grid as levels of a cluster, ready for the formulas of `simulate.parallel`.

A group spans some children of each level. All groups of a kind talk at once, so each of its ranks has its own share of
the links of its node: `Cluster.group_levels`, and g members in a node leave it through g shares.
"""

from __future__ import annotations

from lockstep.base.records import dataclass, field
from lockstep.base.types.arrays import Ints
from lockstep.describe.hardware import Cluster
from lockstep.price.layout import LayoutGrid, Span, parted_spans, span
from lockstep.price.layout.groups import DATA, EXPERT_DATA
from lockstep.simulate.parallel.data.zero import Groups
from lockstep.simulate.parallel.group import Levels, shared_s_per_B


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
        return self._over(span(self.grid, axes, self._units))

    @property
    def _units(self) -> list[int]:
        """Devices of a child of every level."""
        return [self.cluster.devices_per_child(level) for level in range(len(self.cluster.levels))]

    def _over(self, where: Span) -> Levels:
        return self.cluster.group_levels([where.children(level) for level in range(len(self.cluster.levels))])

    def parted(self, axes: tuple[str, ...], ranks: Ints) -> tuple[Levels, Levels]:
        """The levels of groups of `ranks` neighbours of the group over `axes`, and of one rank each of these groups."""
        near, far = parted_spans(self.grid, axes, ranks, self._units)
        return self._over(near), self._over(far)

    @property
    def data(self) -> Groups:
        """The groups over which training states are divided or repeated."""
        whole, near, far, grid = self.levels(*DATA), self.levels("tp"), self.levels("cp"), self.grid
        shard, replicas = self.parted(DATA, grid.shard_ranks)
        expert_shard, expert_replicas = self.parted(EXPERT_DATA, grid.expert_shard_ranks)
        return Groups(
            whole=whole, experts=self.levels(*EXPERT_DATA), shard_ranks=grid.shard_ranks,
            expert_shard_ranks=grid.expert_shard_ranks, shard=shard, replicas=replicas, expert_shard=expert_shard,
            expert_replicas=expert_replicas, met_s_per_B=shared_s_per_B(whole, (near, far)),
        )  # fmt: skip
