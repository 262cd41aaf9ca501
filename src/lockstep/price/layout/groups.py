"""Ranks, their grid coordinates and their process groups, and how many members of a group share a node.

Dense layers have one grid of ranks, expert layers another over the same ranks (`layout.py`). A rank's coordinates are
the mixed-radix digits of its number, innermost axis first. The group of an axis is the set of ranks that differ in that
axis only, so its members are `degree` ranks, `stride` apart, where the stride is the product of the degrees further in.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lockstep.base.errors import BadInput, UnknownName
from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Ints
from lockstep.base.types.plain import Json
from lockstep.describe.hardware import Cluster
from lockstep.price.layout.layout import Layout, LayoutGrid

DATA, EXPERT_DATA = ("cp", "dp"), ("edp",)
"""Axes of the ranks that hold the same dense parameters, and the same experts."""
WITHIN = {"data": DATA, "expert_data": EXPERT_DATA, "shard": DATA, "copies": DATA, "expert_shard": EXPERT_DATA}
"""Axes that the groups with names of their own cover."""
OF_EXPERTS = ("etp", "ep", "edp")
"""Axes of the experts' grid alone."""
SHARDED = ("shard", "copies", "expert_shard")
"""Groups of layouts that are sharded over some of the ranks that hold the same."""
DENSE = {"etp": "tp", "expert_shard": "shard"}
"""Groups of experts that are told where they differ from those of dense layers."""
MAX_LISTED = 16
GROUPS = ("tp", "cp", "ep", "etp", "dp", "pp", "data", "expert_data", "shard", "copies", "expert_shard")


def coordinates(layout: Layout, experts: bool = False) -> dict[str, Ints]:
    """Coordinate of every rank along each axis of the grid of dense or of expert layers."""
    rest = np.arange(layout.world)
    digits = {}
    for axis, degree in layout.grid().degrees(experts):
        rest, digits[axis] = np.divmod(rest, int(degree))
    return digits


def process_groups(layout: Layout, group: str) -> list[list[int]]:
    """All process groups of one kind, each as the sorted ranks in it, in order of their first rank.

    `data` holds the ranks that share dense parameters (dp and cp together), `expert_data` those that share an
    expert, `etp` those that cut one, `shard` the sharing ranks of HSDP, `copies` those with the same shard and
    `expert_shard` those that share an expert's copy. Raises UnknownName otherwise.
    """
    if group not in GROUPS:
        raise UnknownName("process group", group, GROUPS)
    groups: list[list[int]] = _groups(layout, group).tolist()
    return groups


def _groups(layout: Layout, group: str) -> Ints:
    """The groups of one kind as the rows of an array."""
    inside = WITHIN.get(group, (group,))
    digits = coordinates(layout, inside[0] in OF_EXPERTS)
    number = np.zeros(layout.world, dtype=np.int64)
    for axis in digits:
        if axis not in inside:
            number = number * (int(digits[axis].max()) + 1) + digits[axis]
    size = layout.world // len(np.unique(number))
    rows = np.argsort(number, kind="stable").reshape(-1, size)
    if group in SHARDED and layout.shard:
        rows = rows.reshape(-1, size * layout.shard // (layout.dp * layout.cp))
    if group == "copies":
        copies = size // (layout.shard or size)
        rows = rows.reshape(-1, copies, size // copies).swapaxes(1, 2).reshape(-1, copies)
    return rows[np.argsort(rows[:, 0])]


def group_summary(layout: Layout, cluster: Cluster) -> dict[str, Json]:
    """For each kind of process group with several ranks: its size, how many there are, the first one, its level.

    `level` is the outermost level of the cluster that the group crosses; `first` lists at most MAX_LISTED ranks. Groups
    that cut or share experts are left out where those of dense layers are the same.
    """
    units = [cluster.devices_per_child(i) for i in range(len(cluster.levels))]
    found = {}
    for group in GROUPS:
        ranks = _groups(layout, group)
        if ranks.shape[1] == 1 or (group in SHARDED and not layout.shard):
            continue
        if group in DENSE and np.array_equal(ranks, _groups(layout, DENSE[group])):
            continue
        crossed = [i for i, unit in enumerate(units) if np.any(ranks // unit != ranks[:, :1] // unit)]
        found[group] = {
            "ranks": ranks.shape[1],
            "groups": ranks.shape[0],
            "level": cluster.levels[crossed[-1]].name,
            "first": ranks[0, :MAX_LISTED].tolist(),
        }
    return found


def place_of(layout: Layout, rank: int) -> dict[str, Json]:
    """For each axis that is split: the coordinate of a rank, and the ranks of its process group.

    Raises BadInput for a rank that the layout does not have.
    """
    if not 0 <= rank < layout.world:
        raise BadInput(f"must be 0 to {layout.world - 1}, got {rank}", "rank")
    found: dict[str, Json] = {}
    for experts in (False, True) if layout.ep > 1 else (False,):
        for axis, digits in coordinates(layout, experts).items():
            if axis in GROUPS and axis not in found and digits.max() > 0:
                group = next(one for one in process_groups(layout, axis) if rank in one)
                found[axis] = {"coordinate": int(digits[rank]), "ranks": group}
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
    """The span of the group over `axes` of either grid on units of `units[i]` ranks each, innermost unit (1) first.

    Axes with no ranks between them in the grid's order form one run with degree d and stride s; of a run,
    gcd(unit, s*d)/s members share a unit when s divides it, else 1. That is exact when the run's block is aligned with
    the unit, and never more than the true number when it is not. Runs multiply.
    """
    return _span(_runs(grid, axes), units)


def parted_spans(grid: LayoutGrid, axes: Sequence[str], ranks: Ints, units: Sequence[int]) -> tuple[Span, Span]:
    """The spans of the groups of `ranks` neighbours that the group over `axes` is parted into, and of one rank each of
    these groups."""
    near, far = [], []
    for stride, degree in _runs(grid, axes):
        taken = np.gcd(ranks, degree)
        near.append((stride, taken))
        far.append((stride * taken, degree // taken))
        ranks = ranks // taken
    return _span(near, units), _span(far, units)


def _span(runs: Sequence[tuple[Ints, Ints]], units: Sequence[int]) -> Span:
    """The span of a group that runs make."""
    members = [np.asarray(1, dtype=np.int64) for _ in units]
    degree = np.asarray(1, dtype=np.int64)
    for stride, run in runs:
        degree = degree * run
        for i, unit in enumerate(units):
            common = np.gcd(unit, stride * run)
            members[i] = members[i] * np.where(common % stride == 0, np.maximum(common // stride, 1), 1)
    return Span(degree, tuple(members))


def _runs(grid: LayoutGrid, axes: Sequence[str]) -> list[tuple[Ints, Ints]]:
    """(stride, degree) of each run of axes of the grid that they are of; one that goes on in the next has degree 1."""
    stride = between = np.asarray(1, dtype=np.int64)
    runs: list[tuple[Ints, Ints]] = []
    for axis, degree in grid.degrees(axes[0] in OF_EXPERTS):
        if axis in axes:
            runs = [*runs[:-1], *_joined(runs[-1], (stride, degree), between)] if runs else [(stride, degree)]
        between = np.asarray(1, dtype=np.int64) if axis in axes else between * degree
        stride = stride * degree
    return runs


def _joined(run: tuple[Ints, Ints], axis: tuple[Ints, Ints], between: Ints) -> list[tuple[Ints, Ints]]:
    """A run and the next axis: two runs, or one and another of degree 1 where no rank lies between them."""
    (first, ranks), (stride, degree) = run, axis
    if np.all(between == 1):
        return [(first, ranks * degree)]
    return [
        (first, np.where(between == 1, 1, ranks)),
        (np.where(between == 1, first, stride), np.where(between == 1, ranks * degree, degree)),
    ]
