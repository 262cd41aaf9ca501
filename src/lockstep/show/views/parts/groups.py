"""Which ranks work together: every kind of process group by rank, and the groups of rank 0 as a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.price.layout.groups import group_summary, process_groups
from lockstep.show.views.parts.figure import FAINT, PALETTE, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from lockstep.decide.planner.estimate import Estimate

MOST_RANKS = 1024
"""Ranks that are shown; of more, the first ones."""
MOST_ACROSS, MOST_DOWN = 32, 16
"""Ranks of a row, and rows below one another."""
MOST_WRITTEN = 64
"""Ranks whose numbers stand in their squares."""
SIDE = 0.88
"""Of a square, of the distance to the next one."""
GAP, APART = 1.5, 0.5
"""Between columns of nodes, and between nodes of several rows, in squares."""
NAMES = {
    "tp": "tensor parallel",
    "cp": "context parallel",
    "ep": "expert parallel",
    "etp": "expert tensor parallel",
    "dp": "data parallel",
    "pp": "pipeline stages",
    "data": "data and context parallel",
    "expert_data": "expert data parallel",
    "shard": "sharing one copy",
    "copies": "holding the same shard",
    "expert_shard": "sharing one copy of experts",
}


@dataclass(frozen=True, slots=True)
class Groups:
    """One kind of process group."""

    name: str
    label: str
    level: str
    """The outermost level of the cluster that a group crosses."""
    of: list[int]
    """The number of its group, of every rank that is shown."""


def groups_of(one: Estimate) -> list[Groups]:
    """Every kind of group with several ranks."""
    found, ranks = [], one.job.devices
    for name, said in group_summary(one.layout, one.cluster).items():
        if (name == "expert_data" and one.layout.ep == 1) or (name == "data" and one.layout.cp == 1):
            # Without experts apart, or parts of a sequence, these are the data-parallel groups.
            continue
        of = [0] * ranks
        for number, members in enumerate(process_groups(one.layout, name)):
            for rank in members:
                of[rank] = number
        many = "" if said["groups"] == 1 else "s"
        label = f"{NAMES[name]}: {said['groups']:,} group{many} of {said['ranks']:,} ranks"
        found.append(Groups(name.replace("_", " "), label, said["level"], of[:MOST_RANKS]))
    return found


def shown(one: Estimate) -> str:
    """Which ranks are shown, in words."""
    ranks = one.job.devices
    return f"the first {MOST_RANKS:,} of {ranks:,} ranks" if ranks > MOST_RANKS else f"{ranks:,} ranks"


def plot_groups(one: Estimate) -> Figure:
    """For each kind of group a panel of all ranks, node by node, with the group of rank 0 lit.

    Raises BadInput where every rank works alone.
    """
    kinds, unit = groups_of(one), one.cluster.devices_per_unit(0)
    if not kinds:
        raise BadInput("every rank works alone")
    places = _places(min(one.job.devices, MOST_RANKS), unit)
    wide, tall = (1 + max(place[axis] for place in places) for axis in (0, 1))
    panels = min(len(kinds), 2)
    width = max(4.5, min(9.0, panels * max(4.0, 0.3 * wide + 0.3)))
    each = width / panels
    rows = -(-len(kinds) // panels)
    size = width, 0.5 + rows * (0.45 + tall * min(0.3, (each - 0.3) / wide))
    figure = new_figure(size)
    figure.suptitle(f"Ranks that work with rank 0: {shown(one)} in nodes of {unit}", x=0.01, ha="left", fontsize=10)
    cells = list(figure.subplots(rows, panels, squeeze=False).flat)
    for axes in cells:
        axes.set_axis_off()
    for axes, kind in zip(cells, kinds, strict=False):
        _panel(kind, places, axes)
    return figure


def _places(ranks: int, unit: int) -> list[tuple[float, float]]:
    """Where every rank lies, in squares: nodes in rows, the rows of a large node below one another."""
    across = next(one for one in range(min(unit, MOST_ACROSS), 0, -1) if unit % one == 0)
    each = unit // across
    down = min(-(-ranks // unit) * each, max(MOST_DOWN, each))
    found = []
    for rank in range(ranks):
        row = rank // unit * each + rank % unit // across
        apart = APART * (row % down // each) if each > 1 else 0.0
        found.append((row // down * (across + GAP) + rank % unit % across, row % down + apart))
    return found


def _panel(kind: Groups, places: list[tuple[float, float]], axes: Axes) -> None:
    """All ranks as squares; those of rank 0's group lit, with their numbers where there is room."""
    lit = [of == kind.of[0] for of in kind.of]
    # Blocks that white lines cut into squares: a file of a thousand squares would be large.
    _draw(axes, _blocks(places), FAINT)
    _draw(axes, _blocks([place for place, is_lit in zip(places, lit, strict=True) if is_lit]), PALETTE[0])
    columns, rows = sorted({x for x, _ in places}), sorted({y for _, y in places})
    middle, ends = (1 - SIDE) / 2, (rows[-1] + SIDE, columns[-1] + SIDE)
    width = 1.0 if len(places) <= 8 * MOST_WRITTEN else 0.6
    axes.vlines([x - middle for x in columns], 0, ends[0], color="white", linewidth=width)
    axes.hlines([y - middle for y in rows], 0, ends[1], color="white", linewidth=width)
    if len(places) <= MOST_WRITTEN:
        for rank, ((x, y), is_lit) in enumerate(zip(places, lit, strict=True)):
            ink = "white" if is_lit else "#555555"
            axes.text(x + SIDE / 2, y + SIDE / 2, str(rank), ha="center", va="center", fontsize=6, color=ink)
    axes.set_xlim(-0.2, ends[1] + 0.2)
    axes.set_ylim(ends[0] + 0.2, -0.2)
    axes.set_aspect("equal", anchor="NW")
    axes.set_title(f"{kind.label}, over {kind.level}", loc="left", fontsize=8)


def _blocks(places: list[tuple[float, float]]) -> list[tuple[float, float, float, float]]:
    """Squares that touch, as rectangles from (x, y) to (x, y): first rows, then rows below one another."""
    rows: list[list[float]] = []
    for x, y in places:
        if rows and rows[-1][1:3] == [y, x - 1 + SIDE]:
            rows[-1][2] = x + SIDE
        else:
            rows.append([x, y, x + SIDE, y + SIDE])
    found: list[list[float]] = []
    for one in rows:
        if found and [*found[-1][::2], found[-1][3]] == [*one[::2], one[1] - 1 + SIDE]:
            found[-1][3] = one[3]
        else:
            found.append(one)
    return [(x, y, right, low) for x, y, right, low in found]


def _draw(axes: Axes, blocks: list[tuple[float, float, float, float]], colour: str) -> None:
    from matplotlib.collections import PolyCollection

    corners = [[(x, y), (right, y), (right, low), (x, low)] for x, y, right, low in blocks]
    axes.add_collection(PolyCollection(corners, facecolors=colour, edgecolors="none"))
