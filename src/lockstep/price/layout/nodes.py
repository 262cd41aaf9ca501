"""Where ranks lie: the coordinates of the ranks of every node, and the nodes that are alike.

Ranks are placed in the order of their numbers, so node n of `unit` devices has ranks n * unit and those after it. Two
nodes are alike where they hold the same pipeline stages and their ranks differ along the other axes in the same way:
they do the same work for other examples, or for another part of the same tensors.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Ints
from lockstep.price.layout.groups import coordinates
from lockstep.price.layout.layout import Layout

WHERE = "pp"
"""The axis whose coordinate decides which layers a rank holds."""


@dataclass(frozen=True, slots=True, eq=False)
class NodeClass:
    """Nodes that are alike, the first of them in detail."""

    nodes: Ints
    """Numbers, ascending."""
    ranks: Ints
    """Of the first node."""
    coordinates: Mapping[str, Ints]
    """Of these ranks, along every axis that is split."""


def rank_coordinates(layout: Layout) -> dict[str, Ints]:
    """[world] coordinates of every rank along the axes that are split, of dense layers, then of experts.

    Of experts that are cut as dense layers are, those along `etp` are left out.
    """
    found = coordinates(layout)
    if layout.ep > 1:
        experts = coordinates(layout, experts=True)
        found |= {axis: one for axis, one in experts.items() if axis != "etp" or np.any(one != found["tp"])}
    return {axis: digits for axis, digits in found.items() if digits.max() > 0}


def node_classes(layout: Layout, unit: int, apart: bool = False) -> tuple[NodeClass, ...]:
    """The classes of nodes of `unit` devices in the order of their first nodes; `apart`, every node by itself.

    Raises BadInput for a unit below 1.
    """
    if unit < 1:
        raise BadInput(f"must be at least 1, got {unit}", "unit")
    digits = rank_coordinates(layout)
    known: dict[object, list[int]] = {}
    for node, first in enumerate(range(0, layout.world, unit)):
        here = {axis: one[first : first + unit] for axis, one in digits.items()}
        shape = tuple((one if axis == WHERE else one - one.min()).tobytes() for axis, one in here.items())
        known.setdefault(node if apart else shape, []).append(node)
    every = np.arange(layout.world)
    return tuple(
        NodeClass(np.array(nodes), every[part], {axis: one[part] for axis, one in digits.items()})
        for nodes in known.values()
        for part in [slice(nodes[0] * unit, (nodes[0] + 1) * unit)]
    )
