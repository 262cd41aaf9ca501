"""The ways across levels as a table, and the fastest of them, elementwise."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import reduce

import numpy as np

from lockstep.base.errors import BadInput, UnknownName
from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Array, Number
from lockstep.simulate.collectives.cost import LinkLike, PlainLink, used_by
from lockstep.simulate.collectives.levels import direct, hierarchical, regrouped, ring
from lockstep.simulate.collectives.levels.hierarchy import Hierarchy, Levels, Sent, Way
from lockstep.simulate.collectives.registry import check_work
from lockstep.simulate.program import Program

# Per collective, by name. Ties in the best go to the first.
WAYS: Mapping[str, Mapping[str, Way]] = {
    "all-reduce": {"ring": ring.WAY, "hierarchical": hierarchical.WAY},
    "all-gather": {"ring": ring.WAY, "hierarchical": hierarchical.WAY},
    "reduce-scatter": {"ring": ring.WAY, "hierarchical": hierarchical.WAY},
    "all-to-all": {"direct": direct.WAY, "hierarchical": regrouped.WAY},
    **{op: {"hierarchical": hierarchical.WAY} for op in hierarchical.HEADED},
}


@dataclass(frozen=True, slots=True)
class LevelsBest:
    """Time of the fastest way across the levels, its name, and the time of every way."""

    time_s: Number
    algorithm: str | Array
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
    fastest: Number = reduce(np.minimum, times_on_levels(op, levels, size_B, algorithms).values())
    return fastest


def times_on_levels(
    op: str, levels: Levels, size_B: Number, algorithms: Sequence[str] | None = None
) -> dict[str, Number]:
    """Seconds of every way across the levels. Raises UnknownName for a collective or way that does not exist."""
    chosen = tuple(_ways(op)) if algorithms is None else tuple(algorithms)
    return {name: _way(op, name).price(op, *_read(op, levels, name), size_B) for name in chosen}


def program_on_levels(op: str, levels: Levels, size_B: float, way: str) -> tuple[Program, Hierarchy]:
    """The program of one way across the levels, and the network on which its simulation equals the price.

    Raises UnknownName, and BadInput for more operations than are simulated.
    """
    ranks, links = _read(op, levels, way)
    sizes = tuple(int(size) for size in ranks)
    check_work(f"{op} {way}", math.prod(sizes), _way(op, way).work(op, sizes, links, size_B))
    program = _way(op, way).program(op, sizes, links, size_B)
    if way == "ring":
        sharing = ring.sharing(sizes)
        return program, Hierarchy(sizes, tuple(links), sharing, reductions=len(ring.channels(sizes)))
    carrying = hierarchical.carrying(op, sizes, links) if _way(op, way) is hierarchical.WAY else links
    return program, Hierarchy(sizes, tuple(carrying), (1,) * len(sizes))


def _read(op: str, levels: Levels, way: str) -> tuple[list[Number], list[LinkLike]]:
    """Ranks and link of every level; phases read off the link themselves what their own collective reaches."""
    if not levels:
        raise BadInput("levels is empty: give (ranks, latency_s, bandwidth_Bps) for at least one level", "levels")
    links: list[LinkLike] = [PlainLink(*level[1:]) for level in levels]
    if _way(op, way) is not hierarchical.WAY:
        links = [used_by(op, link) for link in links]
    return [level[0] for level in levels], links


def work_on_levels(op: str, levels: Levels, size_B: float, way: str) -> float:
    """Forecast of the program of one way: its operations, with what its rounds cost as operations."""
    ranks, links = _read(op, levels, way)
    return _way(op, way).work(op, tuple(int(size) for size in ranks), links, size_B)


def sent_on_levels(op: str, levels: Levels, size_B: float, way: str) -> Sent:
    """Latencies in series of one way, and messages and bytes of all ranks over every level, by closed forms."""
    ranks, links = _read(op, levels, way)
    return _way(op, way).count(op, tuple(int(size) for size in ranks), links, size_B)


def _ways(op: str) -> Mapping[str, Way]:
    if op not in WAYS:
        raise UnknownName("collective over levels", op, WAYS)
    return WAYS[op]


def _way(op: str, name: str) -> Way:
    if name not in _ways(op):
        raise UnknownName(f"way of {op} over levels", name, WAYS[op])
    return WAYS[op][name]
