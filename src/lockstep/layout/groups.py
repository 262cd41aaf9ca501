"""Ranks, their grid coordinates and their process groups, and how many members of a group share a node.

A rank's coordinates are the mixed-radix digits of its number, innermost axis first. The group of an axis is the set
of ranks that differ in that axis only, so its members are `degree` ranks, `stride` apart, where the stride is the
product of the degrees further in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lockstep.errors import UnknownName
from lockstep.hardware import Cluster
from lockstep.layout.layout import Layout, LayoutGrid
from lockstep.types.arrays import Ints
from lockstep.types.plain import Json

WITHIN = {"dp": ("ep", "dp"), "data": ("cp", "ep", "dp"), "expert_data": ("cp", "dp"), "shard": ("cp", "ep", "dp")}
"""Axes that the groups named after more than one axis cover."""
MAX_LISTED = 16
GROUPS = ("tp", "cp", "ep", "dp", "pp", "data", "expert_data", "shard")


def _radices(layout: Layout) -> list[tuple[str, int]]:
    """(axis, degree) innermost first, where dp is split into ep (inner) and the rest."""
    degrees = {"tp": layout.tp, "cp": layout.cp, "ep": layout.ep, "dp": layout.dp // layout.ep, "pp": layout.pp}
    return [(axis, degrees[axis]) for axis in layout.order]


def coordinates(layout: Layout) -> dict[str, Ints]:
    """Coordinate of every rank along each axis; `dp` is the rest of the data-parallel axis outside `ep`."""
    rest = np.arange(layout.world)
    digits = {}
    for axis, degree in _radices(layout):
        rest, digits[axis] = np.divmod(rest, degree)
    return digits


def process_groups(layout: Layout, group: str) -> list[list[int]]:
    """All process groups of one kind, each as the sorted ranks in it, in order of their first rank.

    `data` holds the ranks that share dense parameters (dp and cp together), `expert_data` those that share an
    expert, `dp` the whole data-parallel axis, `shard` the sharing ranks of HSDP. Raises UnknownName otherwise.
    """
    if group not in GROUPS:
        raise UnknownName("process group", group, GROUPS)
    groups: list[list[int]] = _groups(layout, group).tolist()
    return groups


def _groups(layout: Layout, group: str) -> Ints:
    """The groups of one kind as the rows of an array."""
    digits = coordinates(layout)
    inside = WITHIN.get(group, (group,))
    number = np.zeros(layout.world, dtype=np.int64)
    for axis in layout.order:
        if axis not in inside:
            number = number * (int(digits[axis].max()) + 1) + digits[axis]
    size = layout.world // len(np.unique(number))
    rows = np.argsort(number, kind="stable").reshape(-1, size)
    if group == "shard" and layout.shard:
        rows = rows.reshape(-1, layout.shard)
    return rows[np.argsort(rows[:, 0])]


def group_summary(layout: Layout, cluster: Cluster) -> dict[str, Json]:
    """For each kind of process group with several ranks: its size, how many there are, the first one, its level.

    `level` is the outermost level of the cluster that the group crosses; `first` lists at most MAX_LISTED ranks.
    """
    units = [cluster.devices_per_child(i) for i in range(len(cluster.levels))]
    found = {}
    for group in GROUPS:
        ranks = _groups(layout, group)
        if ranks.shape[1] == 1 or (group == "shard" and not layout.shard):
            continue
        crossed = [i for i, unit in enumerate(units) if np.any(ranks // unit != ranks[:, :1] // unit)]
        found[group] = {
            "ranks": ranks.shape[1],
            "groups": ranks.shape[0],
            "level": cluster.levels[crossed[-1]].name,
            "first": ranks[0, :MAX_LISTED].tolist(),
        }
    return found


@dataclass(frozen=True, slots=True)
class Span:
    """Where a group lies: its degree, and its members within one unit of each level of the cluster."""

    degree: Ints
    members: tuple[Ints, ...]
    """members[i]: ranks of the group inside one child of level i, starting with 1 (a device is level 0's child)."""

    def children(self, level: int) -> Ints:
        """How many children of `level` the group spans inside one unit of that level."""
        above = self.members[level + 1] if level + 1 < len(self.members) else self.degree
        children: Ints = np.maximum(above // self.members[level], 1)
        return children


def span(grid: LayoutGrid, axes: Sequence[str], units: Sequence[int]) -> Span:
    """The span of the group over `axes` on units of `units[i]` ranks each, innermost unit (1) first.

    Axes that are neighbours in the grid's order form one run with degree d and stride s; of a run, gcd(unit, s*d)/s
    members share a unit when s divides it, else 1. That is exact when the run's block is aligned with the unit, and
    never more than the true number when it is not. Runs multiply.
    """
    members = [np.asarray(1, dtype=np.int64) for _ in units]
    degree = np.asarray(1, dtype=np.int64)
    for stride, run in _runs(grid, axes):
        degree = degree * run
        for i, unit in enumerate(units):
            common = np.gcd(unit, stride * run)
            members[i] = members[i] * np.where(common % stride == 0, np.maximum(common // stride, 1), 1)
    return Span(degree, tuple(members))


def _runs(grid: LayoutGrid, axes: Sequence[str]) -> list[tuple[Ints, Ints]]:
    """(stride, degree) of each run of neighbouring axes in the rank grid."""
    degrees = {"tp": grid.tp, "cp": grid.cp, "ep": grid.ep, "dp": np.maximum(1, grid.dp // grid.ep), "pp": grid.pp}
    stride = np.asarray(1, dtype=np.int64)
    runs: list[tuple[Ints, Ints]] = []
    previous_inside = False
    for axis in grid.order:
        inside = axis in axes
        if inside and previous_inside:
            runs[-1] = (runs[-1][0], runs[-1][1] * degrees[axis])
        elif inside:
            runs.append((stride, degrees[axis]))
        previous_inside = inside
        stride = stride * degrees[axis]
    return runs
