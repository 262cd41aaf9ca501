"""All-reduce in levels: reduce-scatter inside, all-reduce of one share across, all-gather inside; two or more levels.

    time = RS(g_0, S) + RS(g_1, S_1) + ... + AR(g_top, S_top) + ... + AG(g_1, S_1) + AG(g_0, S)
    S_{l+1} = largest share of S_l among g_l ranks
g_0 ranks per node, g_1 nodes per group, ...; every algorithm of every level may be chosen:
    levels  sizes innermost first except the top, (8,) or (8, 4); default the largest divisor of n up to sqrt n
    inner   reduce-scatter and all-gather: "ring", "direct", "bruck" or "recursive" (halving and doubling)
    outer   any one-port all-reduce
Here every level has the same link; different links per level: `collectives.levels`. Member 0 of every group holds the
largest share and is the last to finish each phase, so the times add up exactly.

Source: X. Jia et al., arXiv 1807.11205 (2018), section 4; M. Cho et al., "BlueConnect", MLSys 2019.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from lockstep.base.errors import BadInput, UnknownName
from lockstep.base.types.arrays import Array, Number, Whole
from lockstep.base.types.plain import Json
from lockstep.simulate.collectives.cost import Counts, LinkLike, Terms
from lockstep.simulate.collectives.registry import Algorithm, get, register
from lockstep.simulate.collectives.rounds import Rounds, cut
from lockstep.simulate.collectives.shares import Split, square_divisor, whole_nodes

INNER = {
    "ring": ("ring", "ring"),
    "direct": ("direct", "direct"),
    "bruck": ("bruck", "bruck"),
    "recursive": ("recursive-halving", "recursive-doubling"),
}


def settle(
    ranks: Number,
    size_B: Number,
    link: LinkLike,
    split: Split,
    levels: Sequence[Number] | None = None,
    inner: str = "ring",
    outer: str = "ring",
) -> Json:
    """Level sizes, checked to divide, and the choices of the outer algorithm."""
    if inner not in INNER:
        raise UnknownName("inner algorithm", inner, INNER)
    if get("all-reduce", outer).in_switch:
        raise BadInput(f"outer = {outer} needs a switch at every level; try ring", "outer")
    if get("all-reduce", outer).ports > 1:
        raise BadInput(f"outer = {outer} needs two ports and the levels have one; try ring", "outer")
    sizes = (square_divisor(ranks),) if levels is None else tuple(levels)
    left = ranks
    for size in sizes:
        left = left / whole_nodes(left, size)
    share_B = size_B
    for size in sizes:
        share_B = split.largest_B(share_B, size)
    outer_choices = get("all-reduce", outer).settle(left, share_B, link, split)
    return {"levels": sizes, "inner": inner, "outer": outer, "outer_choices": outer_choices}


def phases(
    ranks: Number,
    size_B: Number,
    split: Split,
    levels: Sequence[Number],
    inner: str,
    outer: str,
    outer_choices: Json,
) -> Iterator[tuple[Algorithm, Number, Number, Number]]:
    """(algorithm, ranks of a group, bytes of its largest share, how many whole buffers all groups hold) in order."""
    scatter, gather = (get(op, name) for op, name in zip(("reduce-scatter", "all-gather"), INNER[inner], strict=True))
    inside = []
    left, share_B = ranks, size_B
    for size in levels:
        left = left / size
        inside.append((size, share_B, left))
        share_B = split.largest_B(share_B, size)
    yield from ((scatter, size, part_B, buffers) for size, part_B, buffers in inside)
    yield get("all-reduce", outer), left, share_B, 1.0
    yield from ((gather, size, part_B, buffers) for size, part_B, buffers in reversed(inside))


def terms(ranks: Number, size_B: Number, link: LinkLike, split: Split, **choices: Any) -> Terms:
    """Sum over the phases, each on its largest share."""
    total = Terms(0.0, 0.0, 0.0)
    settled = settle(ranks, size_B, link, split, **choices)
    for algorithm, size, part_B, _ in phases(ranks, size_B, split, **settled):
        total = total + algorithm.terms(size, part_B, link, split)
    return total


def counts(ranks: Number, size_B: Number, link: LinkLike, split: Split, **choices: Any) -> Counts:
    """n / g groups per phase, whose buffers make `buffers` whole ones and differ by one element at most."""
    total = Counts(0.0, 0.0, 0.0)
    settled = settle(ranks, size_B, link, split, **choices)
    for algorithm, size, part_B, buffers in phases(ranks, size_B, split, **settled):
        groups = ranks / size
        smaller_B, larger = split.deal(size_B * buffers, groups)
        of_smaller = algorithm.counts(size, smaller_B, link, split)
        of_larger = algorithm.counts(size, smaller_B + split.element_B, link, split)
        messages = algorithm.counts(size, part_B, link, split).messages * groups
        sent_B, reduced_B = (
            (groups - larger) * getattr(of_smaller, name) + larger * getattr(of_larger, name)
            for name in ("total_B", "total_reduced_B")
        )
        total = total + Counts(messages, sent_B, reduced_B)
    return total


def write(
    rounds: Rounds,
    members: Array,
    start: Whole,
    stop: Whole,
    levels: Sequence[int],
    inner: str,
    outer: str,
    outer_choices: Json,
) -> None:
    """Reduce-scatter inside, the other levels across on each share, all-gather inside; innermost level fastest."""
    if not levels:
        get("all-reduce", outer).write(rounds, members, start, stop, **outer_choices)
        return
    groups, ranks = members.shape
    size = int(levels[0])
    nodes = ranks // size
    inside = members.reshape(groups * nodes, size)
    across = members.reshape(groups, nodes, size).transpose(0, 2, 1).reshape(groups * size, nodes)
    first, last = np.repeat(start, nodes), np.repeat(stop, nodes)
    edges = cut(start, stop, size)
    scatter, gather = INNER[inner]
    get("reduce-scatter", scatter).write(rounds, inside, first, last)
    write(
        rounds, across, edges[:, :-1].ravel(), edges[:, 1:].ravel(),
        levels=levels[1:], inner=inner, outer=outer, outer_choices=outer_choices,
    )  # fmt: skip
    get("all-gather", gather).write(rounds, inside, first, last)


def pieces(ranks: int, levels: Sequence[int], inner: str, outer: str, outer_choices: Json) -> int:
    """Shares of shares, each as the outer algorithm cuts it."""
    inside = int(np.prod([int(size) for size in levels]))
    return inside * get("all-reduce", outer).pieces(int(ranks) // inside, **outer_choices)


HIERARCHICAL = register(
    Algorithm(
        op="all-reduce",
        name="hierarchical",
        terms=terms,
        counts=counts,
        formula="RS(g, S) + AR(n/g, S/g) + AG(g, S); rings: 2(g-1+n/g-1) alpha + 2(n-1)/n S beta + (n-1)/n S gamma",
        source="Jia et al. 2018; Cho et al. 2019",
        message_count="2n(g-1) of p/g + 2n(n/g-1) of p/n",
        choices=("levels", "inner", "outer"),
        examples=(
            {"levels": (4,), "inner": "recursive", "outer": "rabenseifner"},
            {"levels": (3, 2), "inner": "recursive", "outer": "recursive-doubling"},
            {"levels": (3,), "inner": "bruck", "outer": "double-binary-tree"},
            {"levels": (2, 2), "inner": "direct", "outer": "recursive-doubling"},
            {"levels": (3, 2), "inner": "ring", "outer": "tree"},
            {"levels": (2,), "outer": "full-exchange"},
        ),
        settle=settle,
        pieces=pieces,
        copies=lambda ranks, levels, **choices: ranks * (8 * len(levels) + 1),
        write=write,
    )
)
