"""`--machine FILE`: one moment of a step on the nodes, devices and links of the machine, as the page draws it.

A device that computes is a full square with the direction of its pass in it, one that only sends a rhombus, one that
waits an empty square. Below the devices of a node lies its own link, below that the way out to the next level; the
more bytes are under way, the wider its light. Where nodes are drawn as kinds, all devices are drawn below (`crowd.py`).
"""

from __future__ import annotations

from collections import defaultdict
from math import ceil, sqrt
from textwrap import fill
from typing import TYPE_CHECKING

from lockstep.base.errors import BadInput
from lockstep.base.units import format_frac, format_size, format_time, parse_frac
from lockstep.show.views.page.machine import (
    MOST_NODES,
    Doing,
    Machine,
    Node,
    Traffic,
    crowd_of,
    everyone,
    joins,
    nodes_of,
    note,
)
from lockstep.show.views.parts.bars import PART_COLOURS
from lockstep.show.views.parts.crowd import across, draw_crowd, spread
from lockstep.show.views.parts.figure import FAINT, INK, LETTERS, QUIET, new_figure

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from lockstep.decide.planner.estimate import Estimate

Corner = tuple[float, float]
Look = tuple[str, str, bool]
"""Of squares: colours inside and around, and whether something is sent."""
MOMENT = "50%"
COMPUTES = PART_COLOURS["compute"]
COLOURS = {kind: PART_COLOURS[f"{kind}_comm"] for kind in ("tp", "cp", "ep", "pp", "dp", "host")}
"""Of traffic, as in every picture."""
LINES = {"tp": "-", "cp": (0, (4, 1)), "ep": ":", "pp": (0, (3, 1)), "dp": "-.", "host": (0, (1, 2))}
SIGNS = {"forward": ">", "backward": "<", "other": "s", "sending": "D", "waiting": ""}
"""Marks in devices, by what they do."""
SAID = {"forward": "forward pass", "backward": "backward pass", "other": "other computing"}
SAID |= {"sending": "sending, nothing to compute", "waiting": "waiting"}
SIDE, TITLE, OUT, FRAME = 0.86, 0.75, 1.9, 0.8
"""Of a square, of the distance to the next one; above devices, below them, and around nodes of one unit."""
WIDE, LEAST = 46, 14
"""Devices beside one another in a picture: at most, and as many as there is at least room for."""
LEAVES = 0.5
"""From the end of a node's own link to the one that leaves the node."""
WRITTEN = 22.0
"""Points of the smallest device in which its pass is written."""
INCHES = 12.0


def plot_machine(one: Estimate, moment: str = MOMENT, where: str = "--moment") -> Figure:
    """The machine when a share of the step has passed. Raises BadInput at `where` for what is no share of it."""
    frac = parse_frac(moment, where)
    if frac > 1:
        raise BadInput(f"must be a share of the step, from 0 to 100%, got {moment}", where)
    machine, nodes = Machine.of(one), nodes_of(one)[:MOST_NODES]
    now = machine.doing(frac)
    places, (wide, tall) = _places(nodes)
    side, crowd = INCHES / max(wide + 1.0, LEAST), crowd_of(one)
    heights = [side * tall + 1.1]
    if len(nodes) < len(crowd.kinds):
        width, height = spread(crowd)[1]
        heights.append((INCHES - 0.5) * height / width + 0.5)
    figure = new_figure((INCHES, sum(heights)))
    first, *more = figure.subplots(len(heights), 1, squeeze=False, height_ratios=heights).flat
    _draw_nodes(first, one, machine, now, list(zip(nodes, places, strict=True)), 72 * side)
    first.set(xlim=(-1.0, max(wide, LEAST - 1.0)), ylim=(tall, -0.2))
    first.set_title(_title(one, machine, now, frac), loc="left", fontsize=10)
    for axes in more:
        draw_crowd(axes, crowd, now, COLOURS)
        axes.set_title(everyone(one), loc="left", fontsize=8)
    return figure


def _draw_nodes(
    axes: Axes,
    one: Estimate,
    machine: Machine,
    now: Sequence[Doing],
    drawn: Sequence[tuple[Node, Corner]],
    points: float,
) -> None:
    """Nodes with their devices and links; `points`, the distance between two devices."""
    levels = len(one.cluster.levels)
    axes.set_axis_off()
    axes.spines[["top", "right"]].set_visible(False)
    _devices(axes, drawn, now, points)
    for node, place in drawn:
        _node(axes, node, place, levels > 1)
        _links(axes, node, now, place, levels, machine.most_B)
    if levels > 1:
        feet = [y + _foot(node) + OUT / 2 for node, (_, y) in (drawn[0], drawn[-1])]
        axes.plot([-0.6, -0.6], feet, color=QUIET, linewidth=0.8, zorder=0)
    axes.set_aspect("equal", anchor="NW")
    handles = list(_handles(axes, now))
    axes.legend(handles=handles, loc="upper left", bbox_to_anchor=(0.0, 0.0), ncols=6, frameon=False, fontsize=8)


def _title(one: Estimate, machine: Machine, now: Sequence[Doing], frac: float) -> str:
    """The run, the moment, and how many devices do what."""
    each, whole_s = one.job.devices // len(now), machine.timeline.makespan_s
    states = [doing.state for doing in now]
    sending, waiting = (each * states.count(state) for state in ("sending", "waiting"))
    computing = each * len(now) - sending - waiting
    at = f"{format_time(frac * whole_s)} of {format_time(whole_s)} ({format_frac(frac)})"
    run = f"{one.job.model.name} on {one.job.devices:,} x {one.cluster.device.name}: {one.layout}"
    said = f"{at}: {computing:,} devices compute, {sending:,} send with nothing to compute, {waiting:,} wait"
    moved = [(one.cluster.levels[of.level].link.name, of.now_B) for of in machine.carried(frac) if of.level >= 0]
    under_way = ", ".join(f"{format_size(size_B)} over {link}" for link, size_B in moved if size_B)
    said += f"; under way: {under_way}." if under_way else "."
    return "\n".join(fill(line, int(LETTERS * INCHES)) for line in (run, said, f"{note(one)} {joins(one)}"))


def _across(node: Node) -> int:
    """Devices of a node beside one another."""
    return across(len(node.stages))


def _foot(node: Node) -> float:
    """Height of a node's box."""
    return TITLE + ceil(len(node.stages) / _across(node)) + 0.75


def _places(nodes: Sequence[Node]) -> tuple[list[Corner], Corner]:
    """The upper left corners of nodes in rows, and the size of all of them, in devices."""
    wide, framed = _across(nodes[0]) + 1.0, FRAME if nodes[0].frame else 0.0
    tall, fit = _foot(nodes[0]) + OUT + framed, max(1, int(WIDE / wide))
    rows = ceil(len(nodes) / fit)
    columns = ceil(len(nodes) / rows)
    places = [(at % columns * wide, framed + at // columns * tall) for at in range(len(nodes))]
    return places, (columns * wide, rows * tall)


def _node(axes: Axes, node: Node, corner: Corner, out: bool) -> None:
    """A node at rest: its box, its name, its link, and the way out."""
    from matplotlib.patches import Rectangle

    (x, y), wide, foot = corner, _across(node) + 0.5, _foot(node)
    axes.add_patch(Rectangle((x, y), wide, foot, fill=False, edgecolor=QUIET, linewidth=0.8))
    axes.add_patch(Rectangle((x + 0.2, y + foot - 0.45), wide - 0.4, 0.3, color=FAINT))
    said = f"{node.name} ({node.frame})" if node.frame else node.name
    axes.text(x + 0.25, y + TITLE - 0.25, said, fontsize=7, color=INK, clip_on=True)
    if out:
        for left, long in _parts(node, x).values():
            at, low = left + long - LEAVES, y + foot + OUT / 2
            axes.plot([at, at, -0.6], [y + foot, low, low], color=QUIET, linewidth=0.8, zorder=0)


def _devices(axes: Axes, drawn: Sequence[tuple[Node, Corner]], now: Sequence[Doing], points: float) -> None:
    """The devices of all nodes and what they do, those alike as one artist; `points`, the distance between two."""
    from matplotlib.collections import PolyCollection

    squares, signs = defaultdict[Look, list[Corner]](list), defaultdict[tuple[str, str], list[Corner]](list)
    for stage, x, y in ((stage, *where) for node, corner in drawn for stage, where in _cells(node, corner)):
        one, edge = now[stage], COLOURS[now[stage].traffic[0].kind] if now[stage].traffic else QUIET
        squares[COMPUTES if one.text else "none", edge, bool(one.traffic)].append((x, y))
        written = bool(one.text) and points >= WRITTEN
        if SIGNS[one.state]:
            at = x + SIDE / 2, y + SIDE * (0.33 if written else 0.5)
            signs[SIGNS[one.state], "white" if one.text else edge].append(at)
        if written and 3.9 * len(one.text) < SIDE * points:
            axes.text(x + SIDE / 2, y + 0.74 * SIDE, one.text, fontsize=6.5, color="white", ha="center", va="center")
    for (full, edge, sends), corners in squares.items():
        around = [[(x, y), (x + SIDE, y), (x + SIDE, y + SIDE), (x, y + SIDE)] for x, y in corners]
        thick = min(2.0, points / 9) if sends else 0.8
        axes.add_collection(PolyCollection(around, facecolors=full, edgecolors=edge, linewidths=thick))
    for (mark, ink), places in signs.items():
        size = points * (0.5 if mark == SIGNS["sending"] else 0.28)
        across, down = zip(*places, strict=True)
        axes.scatter(across, down, s=size**2, c=ink, marker=mark, linewidths=0, zorder=3)


def _cells(node: Node, corner: Corner) -> Iterator[tuple[int, Corner]]:
    """The stage and the upper left corner of every device of a node."""
    for at, stage in enumerate(node.stages):
        if stage >= 0:
            yield stage, (corner[0] + 0.32 + at % _across(node), corner[1] + TITLE + at // _across(node))


def _links(axes: Axes, node: Node, now: Sequence[Doing], corner: Corner, levels: int, most_B: float) -> None:
    """What moves over the links of a node, with its bytes: on its own, and out of it."""
    foot = corner[1] + _foot(node)
    for stage, (left, long) in _parts(node, corner[0]).items():
        for moved in now[stage].traffic:
            _glow(axes, moved, (left, foot, long), levels, sqrt(moved.size_B / most_B) if most_B else 0.0)
        sizes = [f"{moved.kind} {format_size(moved.size_B)}" for moved in now[stage].traffic if moved.size_B]
        axes.text(left, foot + 0.55, "  ".join(sizes[:2]), fontsize=6.5, color=INK, clip_on=True)


def _parts(node: Node, x: float) -> dict[int, tuple[float, float]]:
    """By stage, where its part of the node's own link begins, and how long it is."""
    here = [stage for stage in dict.fromkeys(node.stages) if stage >= 0]
    long = (_across(node) + 0.1) / len(here)
    return {stage: (x + 0.2 + at * long, long) for at, stage in enumerate(here)}


def _glow(axes: Axes, moved: Traffic, bar: tuple[float, float, float], levels: int, share: float) -> None:
    """A line over the link that traffic takes, with light around it, by its bytes; `bar` is that of the node."""
    from matplotlib.collections import LineCollection

    (left, foot, long), shift = bar, 0.14 * (list(COLOURS).index(moved.kind) - 2.5)
    out, low = left + long - LEAVES + shift, foot + OUT / 2 + shift
    paths = [[(left, foot - 0.3), (left + long, foot - 0.3)], [(out, foot), (out, foot + 0.3)]]
    if moved.level == levels - 1 > 0:
        paths[1] = [(-0.6 + shift / 2, low), (out, low), (out, foot)]
    if moved.lit:
        x, y = zip(*paths[min(1, moved.level)], strict=True)
        line, wide = list(zip(x, y, strict=True)), 3 + 6 * share
        axes.add_collection(LineCollection([line], colors=COLOURS[moved.kind], linewidths=wide, alpha=0.25))
        axes.plot(x, y, color=COLOURS[moved.kind], linewidth=1.5, linestyle=LINES[moved.kind])


def _handles(axes: Axes, now: Sequence[Doing]) -> Iterator[Artist]:
    """What marks and lines mean: of all that devices do, and of the traffic that is under way."""
    for state, mark in SIGNS.items():
        ink = {"sending": INK, "waiting": QUIET}.get(state, COMPUTES)
        full = ink if mark else "none"
        yield axes.plot([], [], mark or "s", markersize=6, color=ink, markerfacecolor=full, label=SAID[state])[0]
    for kind in (kind for kind in COLOURS if any(moved.kind == kind for one in now for moved in one.traffic)):
        (line,) = axes.plot([], [], color=COLOURS[kind], linestyle=LINES[kind], linewidth=2)
        line.set_label(f"{kind} traffic")
        yield line
