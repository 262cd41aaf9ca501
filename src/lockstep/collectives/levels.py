"""Collectives of a group that spans levels of a hierarchy: NVLink in a node, InfiniBand between nodes, a WAN on top.

`levels` lists (ranks, latency_s, bandwidth_Bps) or (ranks, latency_s, bandwidth_Bps, reduce_s_per_B), innermost first;
numbers or arrays. `ranks`: how many units of the level below make one unit here; their product is the size of the
group. `bandwidth_Bps`: the rate of ONE RANK of the group at that level, its own link or its fair share of the node's
adapters, so a node with g ranks in the group leaves through g * bandwidth_Bps.

    hierarchical  phase after phase, nothing overlaps: time is the sum over levels. Collectives run among ranks of equal
                  position, each on its own share. It is the program `all-reduce hierarchical`, simulation included.
    ring          one flat ring visits the nodes one after another, in many channels so that every adapter works, in
                  slices so small that all hops work at once: time = latencies along the way + bytes over the slowest
                  level. It leaves a node once per turn. (NCCL's ring)
    tree          chains inside the innermost level, a double binary tree over the units above, in slices likewise.
                  (NCCL's tree)
    direct        all-to-all with every peer; levels have different ports and work at once: the slowest level.
                  Simulated in the tests with one port per level.
`ring` and `tree` are limits of ever finer slices: lower envelopes, without a program of their own, not simulated.

Source: NCCL `src/graph/tuning.cc` (latency of ring and tree, bytes of both); M. Cho et al., "BlueConnect", MLSys 2019;
S. Rajbhandari et al., ICML 2022, section 5.3 (all-to-all).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from lockstep.collectives.best import best_time_s
from lockstep.collectives.cost import LinkLike, Number, PlainLink
from lockstep.collectives.shares import ceil_log2
from lockstep.errors import BadInput, UnknownName

Levels: TypeAlias = Sequence[tuple[Number, ...]]
Price: TypeAlias = Callable[[str, Sequence[Number], Sequence[LinkLike], Number], Number]
RING_TURNS: Mapping[str, float] = {"all-reduce": 2.0, "all-gather": 1.0, "reduce-scatter": 1.0}
REDUCING = ("all-reduce", "reduce-scatter", "reduce")


@dataclass(frozen=True, slots=True)
class LevelsBest:
    """Time of the fastest way across the levels, its name, and the time of every way."""

    time_s: Number
    algorithm: Number
    times_s: Mapping[str, Number]


def best_on_levels(op: str, levels: Levels, size_B: Number, algorithms: Sequence[str] | None = None) -> LevelsBest:
    """The fastest algorithm over the levels, elementwise. `algorithms` restricts to some of WAYS[op]."""
    times = times_on_levels(op, levels, size_B, algorithms)
    stack = np.stack(np.broadcast_arrays(*times.values()))
    fastest = np.argmin(stack, axis=0)
    names = np.array(list(times))[fastest]
    if fastest.ndim == 0:
        return LevelsBest(float(stack[int(fastest)]), str(names), times)
    return LevelsBest(stack.min(axis=0), names, times)


def best_on_levels_time_s(op: str, levels: Levels, size_B: Number, algorithms: Sequence[str] | None = None) -> Number:
    """Seconds of the fastest way, elementwise: the cheap path for search."""
    times = list(times_on_levels(op, levels, size_B, algorithms).values())
    fastest = times[0]
    for time_s in times[1:]:
        fastest = np.minimum(fastest, time_s)
    return fastest


def times_on_levels(
    op: str, levels: Levels, size_B: Number, algorithms: Sequence[str] | None = None
) -> dict[str, Number]:
    """Seconds of every way across the levels. Raises UnknownName for a collective or way that does not exist."""
    if op not in WAYS:
        raise UnknownName("collective over levels", op, WAYS)
    if not levels:
        raise BadInput("levels is empty: give (ranks, latency_s, bandwidth_Bps) for at least one level", "levels")
    ranks = [level[0] for level in levels]
    links = [PlainLink(*level[1:]) for level in levels]
    chosen = tuple(WAYS[op]) if algorithms is None else tuple(algorithms)
    for name in chosen:
        if name not in WAYS[op]:
            raise UnknownName(f"way of {op} over levels", name, WAYS[op])
    return {name: WAYS[op][name](op, ranks, links, size_B) for name in chosen}


def ring_over_levels(op: str, ranks: Sequence[Number], links: Sequence[LinkLike], size_B: Number) -> Number:
    """turns (sum hops_l alpha_l + (n-1)/n S max 1/(b_l inner_l)) + (n-1)/n S gamma; hops_l = (r_l - 1) units above."""
    turns, inner, total = RING_TURNS[op], _below(ranks), _product(ranks)
    latency_s: Number = 0.0
    for size, below, link in zip(ranks, inner, links, strict=True):
        latency_s = latency_s + (size - 1) * (total / (below * size)) * link.latency_s
    carried_B = size_B * ((total - 1) / total)
    time_s = turns * (latency_s + carried_B * _slowest_s_per_B(ranks, inner, links))
    return time_s + carried_B * _gamma(links[0]) if op in REDUCING else time_s


def tree_over_levels(op: str, ranks: Sequence[Number], links: Sequence[LinkLike], size_B: Number) -> Number:
    """2 ((r_0 - 1) alpha_0 + sum_{l>0} ceil(log2 r_l) alpha_l + S max_l 1/(b_l inner_l)) + S gamma."""
    latency_s = (ranks[0] - 1) * links[0].latency_s
    for size, link in zip(ranks[1:], links[1:], strict=True):
        latency_s = latency_s + ceil_log2(size) * link.latency_s
    time_s = 2 * (latency_s + size_B * _slowest_s_per_B(ranks, _below(ranks), links))
    return time_s + size_B * _gamma(links[0]) * (_product(ranks) > 1)


def hierarchical(op: str, ranks: Sequence[Number], links: Sequence[LinkLike], size_B: Number) -> Number:
    """Sum over levels: all-reduce = reduce-scatters outwards, all-reduce on top, all-gathers back; others likewise."""
    total_s: Number = 0.0
    share_B = size_B
    for level, (size, link) in enumerate(zip(ranks, links, strict=True)):
        top = level == len(ranks) - 1
        if op == "all-reduce" and not top:
            total_s = total_s + best_time_s("reduce-scatter", size, share_B, link, PLAIN["reduce-scatter"])
            total_s = total_s + best_time_s("all-gather", size, share_B, link, PLAIN["all-gather"])
        else:
            total_s = total_s + best_time_s(op, size, share_B, link, PLAIN.get(op))
        if op in RING_TURNS:
            share_B = share_B / size
    return total_s


def rooted(op: str, ranks: Sequence[Number], links: Sequence[LinkLike], size_B: Number) -> Number:
    """Scatter or gather: the whole between the outermost units, each unit's part further in."""
    total_s: Number = 0.0
    part_B = size_B
    for size, link in zip(reversed(ranks), reversed(links), strict=True):
        total_s = total_s + best_time_s(op, size, part_B, link)
        part_B = part_B / size
    return total_s


def all_to_all_phases(op: str, ranks: Sequence[Number], links: Sequence[LinkLike], size_B: Number) -> Number:
    """Sum over levels of (r_l - 1)(alpha_l + S/(r_l b_l)): at every level all S bytes are regrouped."""
    total_s: Number = 0.0
    for size, link in zip(ranks, links, strict=True):
        total_s = total_s + best_time_s(op, size, size_B, link, ("direct",))
    return total_s


def all_to_all_direct(op: str, ranks: Sequence[Number], links: Sequence[LinkLike], size_B: Number) -> Number:
    """max over levels of peers_l (alpha_l + S/(n b_l)), peers_l = (r_l - 1) * ranks per unit below."""
    total, slowest_s = _product(ranks), None
    for size, below, link in zip(ranks, _below(ranks), links, strict=True):
        peers = (size - 1) * below
        time_s = peers * (link.latency_s + size_B / (total * link.bandwidth_Bps))
        slowest_s = time_s if slowest_s is None else np.maximum(slowest_s, time_s)
    return slowest_s


def _product(ranks: Sequence[Number]) -> Number:
    total: Number = 1.0
    for size in ranks:
        total = total * size
    return total


def _below(ranks: Sequence[Number]) -> list[Number]:
    """Ranks in one unit below each level: 1, r_0, r_0 r_1, ..."""
    return [_product(ranks[:level]) for level in range(len(ranks))]


def _slowest_s_per_B(ranks: Sequence[Number], inner: Sequence[Number], links: Sequence[LinkLike]) -> Number:
    """Largest seconds per byte that leaves a unit, over the levels that the group really crosses."""
    slowest: Number = 0.0
    for size, below, link in zip(ranks, inner, links, strict=True):
        slowest = np.maximum(slowest, (np.asarray(size) > 1) / (below * link.bandwidth_Bps))
    return slowest


def _gamma(link: LinkLike) -> Number:
    return getattr(link, "reduce_s_per_B", 0.0)


# What libraries really run at one level of a hierarchy, rather than the best known in theory.
PLAIN: Mapping[str, tuple[str, ...]] = {
    "reduce-scatter": ("ring",),
    "all-gather": ("ring",),
    "all-reduce": ("ring", "double-binary-tree"),
}
WAYS: Mapping[str, Mapping[str, Price]] = {
    "all-reduce": {"ring": ring_over_levels, "tree": tree_over_levels, "hierarchical": hierarchical},
    "all-gather": {"ring": ring_over_levels, "hierarchical": hierarchical},
    "reduce-scatter": {"ring": ring_over_levels, "hierarchical": hierarchical},
    "all-to-all": {"direct": all_to_all_direct, "hierarchical": all_to_all_phases},
    "broadcast": {"hierarchical": hierarchical},
    "reduce": {"hierarchical": hierarchical},
    "scatter": {"hierarchical": rooted},
    "gather": {"hierarchical": rooted},
}
