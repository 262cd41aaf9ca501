"""Layouts drawn at random, whose ranks other software is asked to group, and where groups of ranks lie in a cluster."""

from __future__ import annotations

import itertools
import math
import operator
import random
from collections.abc import Sequence
from dataclasses import replace

from agreement import Answers

from lockstep.describe.hardware import Cluster, cluster
from lockstep.price.layout import AXES, Layout
from lockstep.price.step.network import Network

DEGREES = (1, 2, 3, 4)
MOST_RANKS = 48
STRADDLES = "groups whose ranks lie unevenly over nodes are priced as if every one of them lay as thinly as it can"
Groups = list[list[int]]
PRICED = {
    "tp": ("tp",), "cp": ("cp",), "dp": ("dp",), "pp": ("pp",), "data": ("cp", "dp"), "etp": ("etp",), "ep": ("ep",),
    "expert_data": ("edp",),
}  # fmt: skip
"""Axes whose levels a kind of group is priced over."""
LEVELS = ("replicas", "expert_replicas")
"""Groups of which Lockstep knows the levels alone: the ranks that hold the same shard in different copies."""


def drawn(number: int, *, shards: bool = False, last: str = "", seed: int = 59) -> list[Layout]:
    """Layouts with several axes, experts over any of their ranks, in any order; `last`, an axis that is outermost."""
    chance, found = random.Random(seed), list[Layout]()
    while len(found) < number:
        tp, cp, dp, pp = (chance.choice(DEGREES) for _ in range(4))
        ranks = tp * cp * dp
        if not 4 <= ranks * pp <= MOST_RANKS:
            continue
        ep, etp = chance.choice([(a, b) for a in range(1, ranks + 1) for b in (1, 2, tp) if ranks % (a * b) == 0])
        order = chance.sample(AXES, len(AXES))
        if last:
            order = [*(axis for axis in order if axis != last), last]
        shard = chance.choice([n for n in range(1, dp * cp + 1) if dp * cp % n == 0]) if shards else 0
        found.append(Layout(tp=tp, cp=cp, dp=dp, pp=pp, ep=ep, etp=etp, order=tuple(order), shard=shard, zero=3))
    return found


def name_of(layout: Layout) -> str:
    """A layout in a few words, for a message."""
    degrees = " ".join(f"{axis}{getattr(layout, axis)}" for axis in ("tp", "cp", "dp", "pp", "ep", "etp", "shard"))
    return f"{degrees} {'-'.join(layout.order)}"


def machines(layout: Layout) -> list[Cluster]:
    """Clusters that the layout's ranks fill: of nodes of 2 to 8 devices, and of racks of two or three nodes of 4."""
    base, ranks = cluster("dgx-h100:2"), layout.world
    node, fabric = base.levels
    full = [(min(size, ranks),) for size in (2, 3, 4, 6, 8) if ranks % min(size, ranks) == 0]
    full += [(4, nodes) for nodes in (2, 3) if ranks % (4 * nodes) == 0]
    found = []
    for size, *nodes in full:
        racks = [replace(fabric, name="rack", size=some) for some in nodes]
        outer = ranks // math.prod((size, *nodes))
        found.append(replace(base, levels=(replace(node, size=size), *racks, replace(fabric, size=outer))))
    return found


def priced_over(layout: Layout, there: Cluster, kind: str) -> list[int]:
    """Children that a group of a kind spans at each level of a cluster, as its collectives are priced."""
    network = Network(there, layout.grid())
    levels = network.levels(*PRICED[kind]) if kind in PRICED else getattr(network.data, kind)
    return [int(level[0]) for level in levels]


def lies_over(groups: Groups, there: Cluster) -> tuple[list[int], bool]:
    """The same of real groups, counted rank by rank: of the one that lies thinnest, and whether all lie alike."""
    units = [there.devices_per_child(level) for level in range(len(there.levels))] + [there.num_devices]
    found = {
        tuple(_children(members, inner, outer) for inner, outer in itertools.pairwise(units)) for members in groups
    }
    alike = len(found) == 1 and all(len(set(one)) == 1 for some in found for one in some)
    return [max(max(one) for one in level) for level in zip(*found, strict=True)], alike


def _children(members: Sequence[int], inner: int, outer: int) -> tuple[int, ...]:
    """How many units of `inner` devices have a member, in each unit of `outer` devices that has one."""
    held = {rank // inner for rank in members}
    whole = {rank // outer: 0 for rank in members}
    for unit in held:
        whole[unit * inner // outer] += 1
    return tuple(whole.values())


def no_closer(priced: Sequence[int], theirs: Sequence[int]) -> bool:
    """Whether no unit of a cluster holds more ranks of a group, as it is priced, than really lie in one."""
    held, real = (itertools.accumulate(levels, operator.mul) for levels in (priced, theirs))
    return all(ours <= most for ours, most in zip(held, real, strict=True))


def compare_places(answers: Answers, layout: Layout, groups: dict[str, Groups]) -> None:
    """Holds the levels that groups are priced over to where the ranks of real groups lie."""
    for there in machines(layout):
        sizes = [level.size for level in there.levels]
        for kind, some in groups.items():
            theirs, alike = lies_over(some, there)
            priced = priced_over(layout, there, kind)
            thinner = not alike and priced != theirs and no_closer(priced, theirs)
            why = STRADDLES if thinner else ""
            answers.compare(f"{name_of(layout)}, {kind} on {sizes}", priced, theirs, why=why)
