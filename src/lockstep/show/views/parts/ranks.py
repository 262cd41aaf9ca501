"""Which rank has which coordinates on which node, as rows: every node of a small cluster, else one of each class."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from lockstep.price.layout.nodes import node_classes, rank_coordinates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockstep.decide.planner.estimate import Estimate

MOST_NODES = 8
"""Nodes that are listed one by one."""
MOST_WRITTEN = 8
"""Devices of a node whose coordinates are written one by one."""
TITLE = "Ranks by node"
NO_BREAK = "\N{NO-BREAK SPACE}"


def note(one: Estimate) -> str:
    """What a row is."""
    size = min(_unit(one), one.job.devices)
    said = f"coordinates of the {size} devices in order" if size <= MOST_WRITTEN else f"coordinates of {size} devices"
    return f"{said}, of the first node of each class" if _classes(one) else said


def titles(one: Estimate) -> list[tuple[str, str]]:
    """Columns: nodes, in classes how many are alike, ranks of the first, and every axis that is split."""
    axes = [(axis, "left") for axis in rank_coordinates(one.layout)]
    return [("node", "left"), *([("alike", "right")] if _classes(one) else []), ("ranks", "left"), *axes]


def rows(one: Estimate) -> list[list[str]]:
    """A line for each node or class; no cell breaks."""
    return [
        [
            cell.replace(" ", NO_BREAK)
            for cell in (
                numbers(some.nodes.tolist()),
                *([f"{len(some.nodes):,}"] if _classes(one) else []),
                numbers(some.ranks.tolist()),
                *(_coordinates(digits.tolist()) for digits in some.coordinates.values()),
            )
        ]
        for some in node_classes(one.layout, _unit(one), apart=not _classes(one))
    ]


def _unit(one: Estimate) -> int:
    return one.cluster.devices_per_unit(0)


def _classes(one: Estimate) -> bool:
    """Whether there are too many nodes to list each."""
    return one.job.devices > MOST_NODES * _unit(one)


def numbers(ascending: Sequence[int]) -> str:
    """Ascending numbers: a range where they are one, else the first ones."""
    first, last = ascending[0], ascending[-1]
    if len(ascending) == 1:
        return str(first)
    steps = {after - before for before, after in pairwise(ascending)}
    if steps == {1}:
        return f"{first} to {last}"
    every = f", every {steps.pop()}" if len(steps) == 1 else ""
    return f"{first} to {last}{every or f', {len(ascending)} of them'}"


def _coordinates(digits: Sequence[int]) -> str:
    """One number where all are the same, each where there are few, else from which to which."""
    if len({*digits}) == 1:
        return str(digits[0])
    return " ".join(map(str, digits)) if len(digits) <= MOST_WRITTEN else f"{min(digits)} to {max(digits)}"
