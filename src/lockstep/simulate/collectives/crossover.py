"""Which algorithm is fastest for which size, solved exactly: every price is a minimum of straight lines in the size.

An algorithm without segments is one line  steps alpha + (bytes beta + reduced gamma) S;  one with segments is the
minimum of one line per number of segments. The lower envelope of all lines gives every boundary by intersecting two
lines: no folklore formula, no search. Equal shares (`element_B = 0`); whole elements shift a boundary by less than one
element per rank. n* = alpha / beta is the size whose bandwidth time equals one latency.
Ways across levels are maxima and sums of such lines: their boundaries are bisected to the last bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Array, Floats, Number
from lockstep.base.types.plain import Json, picked, plain
from lockstep.base.types.shown import Shown
from lockstep.simulate.collectives.best import best, contenders, usable
from lockstep.simulate.collectives.cost import Cost, LinkLike, PlainLink
from lockstep.simulate.collectives.levels import Levels, LevelsBest, best_on_levels, times_on_levels
from lockstep.simulate.collectives.levels.hierarchy import product
from lockstep.simulate.collectives.registry import algorithms as names_of
from lockstep.simulate.collectives.registry import check_arguments, get
from lockstep.simulate.collectives.shares import FLUID
from lockstep.simulate.collectives.trees import MAX_SEGMENTS

# Lines closer than this (relative) are one line: the same formula, rounded differently.
SAME = 1e-12
SIZES_B = np.concatenate(([0.0], 2.0 ** np.arange(0, 50, 1 / 64)))
"""Among these the ways across levels are compared; a change of the fastest is looked for between two neighbours."""


@dataclass(frozen=True, slots=True)
class Region:
    """Sizes `from_B` .. `to_B` (None means unbounded) where `best` is the fastest."""

    from_B: float
    to_B: float | None
    best: str

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self)


@dataclass(frozen=True, slots=True, repr=False)
class Crossover(Shown):
    """Regions of the fastest algorithm over size, their boundaries, and n* = alpha/beta in bytes."""

    op: str
    ranks: int
    regions: tuple[Region, ...]
    n_star_B: float

    @property
    def crossovers_B(self) -> tuple[float, ...]:
        """All sizes where the fastest algorithm changes."""
        return tuple(region.from_B for region in self.regions[1:])

    @property
    def crossover_B(self) -> float | None:
        """The smallest size where the fastest algorithm changes; None when one is fastest for every size."""
        return self.crossovers_B[0] if len(self.regions) > 1 else None

    def to_dict(self) -> Json:
        """Plain JSON form with the names of the command line."""
        return picked(self, "op ranks crossover_B crossovers_B n_star_B regions")


def n_star_B(link: LinkLike) -> Number:
    """alpha / beta in bytes: where one message's bandwidth time equals its latency."""
    return link.latency_s * link.bandwidth_Bps


def crossover(op: str, ranks: int, link: LinkLike, between: Sequence[str] | None = None) -> Crossover:
    """Exact regions of the fastest algorithm over all sizes, among `between` (default: all one-port contenders).

    Raises BadInput, UnknownName.
    """
    check_arguments(ranks, 0.0, link)
    names = [a.name for a in contenders(op) if usable(a, link)] if between is None else list(between)
    _check_several(between)
    lines = [(name, *_lines(op, name, ranks, link)) for name in names]
    owner = np.concatenate([np.full(len(start), i) for i, (_, start, _) in enumerate(lines)])
    start = np.concatenate([line[1] for line in lines])
    slope = np.concatenate([line[2] for line in lines])
    walk = [(names[int(owner[index])], from_B) for index, from_B in _envelope(start, slope)]
    return Crossover(op, int(ranks), _regions(walk), float(n_star_B(link)))


def crossover_on_levels(op: str, levels: Levels, between: Sequence[str] | None = None) -> Crossover:
    """Regions of the fastest way across `levels`, among `between` (default: all); n* is of the widest level.

    Raises BadInput, UnknownName.
    """
    _check_several(between)
    fastest = _fastest_on_levels(op, levels, SIZES_B, between)
    walk = [(fastest[0], 0.0)]
    for i in np.flatnonzero(fastest[1:] != fastest[:-1]):
        low_B, high_B = SIZES_B[i : i + 2].tolist()
        while low_B < (middle_B := (low_B + high_B) / 2) < high_B:
            same = _fastest_on_levels(op, levels, np.array([middle_B]), between)[0] == fastest[i]
            low_B, high_B = (middle_B, high_B) if same else (low_B, middle_B)
        walk.append((fastest[i + 1], high_B))
    ranks = int(product([level[0] for level in levels]))
    return Crossover(op, ranks, _regions(walk), float(n_star_B(PlainLink(*levels[-1][1:]))))


def _fastest_on_levels(op: str, levels: Levels, sizes_B: Floats, between: Sequence[str] | None) -> Array:
    """Name of the fastest way at each size; among equal ones the first."""
    times = times_on_levels(op, levels, sizes_B, between)
    stack = np.stack(np.broadcast_arrays(*times.values()))
    names: Array = np.array(list(times))[np.argmax(stack <= stack.min(axis=0) * (1 + SAME), axis=0)]
    return names


def _check_several(between: Sequence[str] | None) -> None:
    if between is not None and len(set(between)) < 2:
        raise BadInput(f"between = {', '.join(between)}: name at least two different algorithms", "between")


def _regions(walk: Sequence[tuple[str, float]]) -> tuple[Region, ...]:
    """Regions of a walk of (fastest, size from which it is), with neighbours of one name joined."""
    starts = [(name, from_B) for i, (name, from_B) in enumerate(walk) if i == 0 or walk[i - 1][0] != name]
    ends = [*(from_B for _, from_B in starts[1:]), None]
    return tuple(Region(from_B, to_B, str(name)) for (name, from_B), to_B in zip(starts, ends, strict=True))


def _lines(op: str, name: str, ranks: int, link: LinkLike) -> tuple[Floats, Floats]:
    """(seconds at size 0, seconds per byte) of every line of an algorithm."""
    algorithm = get(op, name)
    link = algorithm.over(link)
    choices = {"segments": np.arange(1.0, MAX_SEGMENTS + 1)} if "segments" in algorithm.choices else {}
    terms = algorithm.terms(float(ranks), 1.0, link, FLUID, **choices)
    gamma = getattr(link, "reduce_s_per_B", 0.0)
    start, slope = np.broadcast_arrays(
        np.asarray(terms.steps * link.latency_s + getattr(link, "start_s", 0.0) * (terms.steps > 0), dtype=np.float64),
        np.asarray(terms.critical_B / link.bandwidth_Bps + terms.reduced_B * gamma, dtype=np.float64),
    )
    return np.atleast_1d(start), np.atleast_1d(slope)


def _envelope(start: Floats, slope: Floats) -> list[tuple[int, float]]:
    """(line, size from which it is the lowest) of the lower envelope of start + slope * size over size >= 0.

    Among equal lines the first one counts. From the lowest line at size 0, walk to the nearest intersection with a
    flatter one.
    """
    scale = max(float(np.max(np.abs(start))), 1e-300)
    lowest = np.flatnonzero(start <= start.min() + SAME * scale)
    flattest = lowest[slope[lowest] <= slope[lowest].min() * (1 + SAME)]
    current, at_B = int(flattest[0]), 0.0
    walk = [(current, at_B)]
    while True:
        flatter = np.flatnonzero(slope < slope[current] * (1 - SAME))
        if not len(flatter):
            return walk
        meet_B = (start[flatter] - start[current]) / (slope[current] - slope[flatter])
        nearest = flatter[meet_B <= meet_B.min() * (1 + SAME)]
        best_slope = slope[nearest].min()
        current = int(nearest[slope[nearest] <= best_slope * (1 + SAME)][0])
        at_B = max(at_B, float(meet_B.min()))
        walk.append((current, at_B))


@dataclass(frozen=True, slots=True)
class BestMap:
    """Fastest algorithm and its time over a grid: `algorithm[i, j]` for ranks[i] and sizes_B[j]."""

    op: str
    ranks: tuple[int, ...]
    sizes_B: tuple[float, ...]
    algorithm: Array
    time_s: Floats

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self, "op ranks sizes_B") | {"best": plain(self.algorithm), "time_s": plain(self.time_s)}


def best_map(
    op: str,
    ranks: Sequence[int],
    sizes_B: Sequence[float],
    link: LinkLike,
    algorithms: Sequence[str] | None = None,
) -> BestMap:
    """Fastest algorithm over (ranks, size)."""
    rows, columns = (
        np.asarray(ranks, dtype=np.float64)[:, np.newaxis],
        np.asarray(sizes_B, dtype=np.float64)[np.newaxis, :],
    )
    gamma, switch = getattr(link, "reduce_s_per_B", 0.0), getattr(link, "switch", None)
    plain = PlainLink(link.latency_s, link.bandwidth_Bps, gamma, switch)
    cost = best(op, rows, columns, plain, algorithms)
    return BestMap(
        op,
        tuple(int(n) for n in ranks),
        tuple(float(s) for s in sizes_B),
        np.asarray(cost.algorithm),
        np.asarray(cost.time_s),
    )


def best_map_on_levels(
    op: str, levels: Mapping[int, Levels], sizes_B: Sequence[float], algorithms: Sequence[str] | None = None
) -> BestMap:
    """Fastest over (ranks, size), `levels` by ranks: ways across several levels, algorithms on the link of one."""
    sizes = np.asarray(sizes_B, dtype=np.float64)
    fastest: list[Cost | LevelsBest] = []
    for ranks, spanned in levels.items():
        if len(spanned) > 1:
            fastest.append(best_on_levels(op, spanned, sizes, algorithms))
        else:
            known = [name for name in algorithms or () if name in names_of(op)]
            fastest.append(best(op, float(ranks), sizes, PlainLink(*spanned[0][1:]), known or None))
    names, times = (np.stack([getattr(one, field) for one in fastest]) for field in ("algorithm", "time_s"))
    return BestMap(op, tuple(levels), tuple(float(s) for s in sizes_B), names, times)
