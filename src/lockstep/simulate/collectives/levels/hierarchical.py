"""Phase after phase, one level at a time: collectives among ranks of equal place, or among the heads of units.

    all-reduce      RS(r_0, S) + RS(r_1, S/r_0) + ... + AR(r_top, share) + ... + AG(r_1, S/r_0) + AG(r_0, S)
    reduce-scatter  RS(r_0, S) + RS(r_1, S/r_0) + ...          all-gather: the same backwards
    broadcast       B(r_top, S) + ... + B(r_0, S)              reduce: the same backwards
    scatter         SC(r_top, S) + SC(r_top-1, S/r_top) + ...  gather: the same backwards
Nothing overlaps, so the time is the sum over levels. Where all ranks take part (the first two lines) each group of a
level works on the share that its places in the levels below own; in the others only the first rank of every unit does.
At each level the fastest of what libraries run there.

Source: M. Cho et al., "BlueConnect", MLSys 2019; X. Jia et al., arXiv 1807.11205 (2018), section 4.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np

from lockstep.base.types.arrays import Array, Number
from lockstep.base.types.plain import Json
from lockstep.simulate.collectives.best import best, best_time_s
from lockstep.simulate.collectives.cost import Counts, LinkLike, used_by
from lockstep.simulate.collectives.levels.hierarchy import Sent, Way, product
from lockstep.simulate.collectives.registry import Algorithm, get, own_algorithms
from lockstep.simulate.collectives.rounds import Rounds, cut
from lockstep.simulate.collectives.shares import FLUID
from lockstep.simulate.program import Program

OUTWARDS = ("reduce-scatter", "reduce", "gather")
HEADED = ("broadcast", "reduce", "scatter", "gather")


@cache
def deployed(op: str) -> tuple[str, ...] | None:
    """What libraries really run at one level of a hierarchy, rather than the best known in theory; None if unknown."""
    return tuple(name for name in own_algorithms(op) if get(op, name).deployed) or None


def phases(op: str, levels: int) -> list[tuple[str, int]]:
    """(collective, level) in order."""
    if op == "all-reduce":
        inner = range(levels - 1)
        scattered = [("reduce-scatter", level) for level in inner]
        return [*scattered, ("all-reduce", levels - 1), *(("all-gather", level) for level in reversed(inner))]
    order = range(levels) if op in OUTWARDS else reversed(range(levels))
    return [(op, level) for level in order]


def parts(op: str, ranks: Sequence[Number]) -> list[Number]:
    """Into how many parts the buffer is cut before the phase of each level: what the levels done before hold apart."""
    if op in ("broadcast", "reduce"):
        return [1.0] * len(ranks)
    if op in ("scatter", "gather"):
        return [product(ranks[level + 1 :]) for level in range(len(ranks))]
    return [product(ranks[:level]) for level in range(len(ranks))]


def price(op: str, ranks: Sequence[Number], links: Sequence[LinkLike], size_B: Number) -> Number:
    """Seconds; broadcasts."""
    time_s: Number = 0.0
    cut_in = parts(op, ranks)
    for phase, level in phases(op, len(ranks)):
        if np.all(np.equal(ranks[level], 1)):
            continue  # One rank has nobody to talk to.
        time_s = time_s + best_time_s(phase, ranks[level], size_B / cut_in[level], links[level], deployed(phase))
    if op != "all-reduce":
        return time_s
    for level in range(len(ranks) - 1):
        if getattr(links[level], "switch", None) is not None:
            # Where nothing is beyond a level, its switch does both phases at once.
            lone = (product(ranks[level + 1 :]) == 1) & (np.asarray(ranks[level]) > 1)
            if np.any(lone):
                inner = price_inside(ranks[:level], links[:level], size_B)
                here_s = best_time_s(op, ranks[level], size_B / cut_in[level], links[level], deployed(op))
                time_s = np.where(lone, inner + here_s, time_s)
    return time_s


def price_inside(ranks: Sequence[Number], links: Sequence[LinkLike], size_B: Number) -> Number:
    """Seconds of the phases of an all-reduce below a level: reduce-scatter before it, all-gather after it."""
    return price("reduce-scatter", ranks, links, size_B) + price("all-gather", ranks, links, size_B)


def work(op: str, sizes: Sequence[int], links: Sequence[LinkLike], size_B: float) -> float:
    """That of every phase's algorithm in all its groups; rounds are those of one, as groups keep step."""
    total = 0.0
    for algorithm, _, groups, arguments, choices in _called(op, sizes, links, size_B):
        operations = float(algorithm.operations(*arguments, **choices))
        total += float(groups) * operations
        total += float(algorithm.work(*arguments, **choices)) - operations
    return total


def count(op: str, sizes: Sequence[int], links: Sequence[LinkLike], size_B: float) -> Sent:
    """The sums over phases; all messages of a phase are over its level."""
    steps, over = 0.0, [Counts(0.0, 0.0) for _ in sizes]
    for algorithm, level, groups, arguments, choices in _called(op, sizes, links, size_B):
        size, part_B, link = arguments
        used = size, part_B, algorithm.over(link), FLUID
        steps += float(algorithm.terms(*used, **choices).steps)
        over[level] += algorithm.counts(*used, **choices).times(groups)
    return Sent(steps, tuple(over))


def program(op: str, sizes: Sequence[int], links: Sequence[LinkLike], size_B: float) -> Program:
    """The phases, each by the algorithm that is fastest for these sizes and links; shares go by place, inner first."""
    chosen = list(_choices(op, sizes, links, size_B))
    pieces = int(np.prod([algorithm.pieces(sizes[level], **choices) for algorithm, level, choices in chosen]))
    ranks = int(product(sizes))
    switches = max((ranks // sizes[level] for algorithm, level, _ in chosen if algorithm.in_switch), default=0)
    rounds = Rounds.with_switches(ranks, switches, max(sizes) if switches else 0, size_B / pieces)
    starts, stops = _ranges(op, sizes, pieces)
    for algorithm, level, choices in chosen:
        members = _groups(op, sizes, level)
        first = members[:, 0]
        algorithm.begin(rounds, members, links[level])
        algorithm.write(rounds, members, starts[level, first], stops[level, first], **choices)
    return rounds.build()


def carrying(op: str, sizes: Sequence[int], links: Sequence[LinkLike]) -> list[LinkLike]:
    """The link of every level at the rate that the messages of its phases reach, by twos the same in an all-reduce."""
    found = list(links)
    for phase, level in phases(op, _levels(op, sizes, links)):
        found[level] = used_by(phase, links[level])
    return found


def _called(
    op: str, sizes: Sequence[int], links: Sequence[LinkLike], size_B: float
) -> Iterator[tuple[Algorithm, int, Number, tuple[int, Number, LinkLike], Json]]:
    """(algorithm, level, groups at once, their ranks, size and link, choices of its closed forms) per phase."""
    cut_in, ranks = parts(op, sizes), product(sizes)
    for algorithm, level, choices in _choices(op, sizes, links, size_B):
        given = {name: choices[name] for name in choices if name in algorithm.choices}
        groups = product(sizes[level + 1 :]) if op in HEADED else ranks / sizes[level]
        yield algorithm, level, groups, (sizes[level], size_B / cut_in[level], links[level]), given


def _choices(
    op: str, sizes: Sequence[int], links: Sequence[LinkLike], size_B: float
) -> Iterator[tuple[Algorithm, int, dict[str, object]]]:
    """(algorithm, level, its settled choices) per phase."""
    cut_in = parts(op, sizes)
    for phase, level in phases(op, _levels(op, sizes, links)):
        size, part_B, link = sizes[level], size_B / cut_in[level], links[level]
        algorithm = get(phase, str(best(phase, size, part_B, link, deployed(phase)).algorithm))
        yield algorithm, level, algorithm.settle(size, part_B, algorithm.over(link), FLUID)


def _levels(op: str, sizes: Sequence[int], links: Sequence[LinkLike]) -> int:
    """Levels with phases of their own: all, or up to the outermost that is spanned if its switch reduces."""
    top = max((level for level, size in enumerate(sizes) if size > 1), default=len(sizes) - 1)
    alone = op == "all-reduce" and getattr(links[top], "switch", None) is not None
    return top + 1 if alone else len(sizes)


def _groups(op: str, sizes: Sequence[int], level: int) -> Array:
    """[group, member]: ranks that differ in their place at `level` alone; of headed collectives only unit heads."""
    grid = np.arange(int(product(sizes))).reshape(tuple(reversed(sizes)))
    members = np.moveaxis(grid, len(sizes) - 1 - level, -1).reshape(-1, sizes[level])
    return members[members[:, 0] % int(product(sizes[:level])) == 0] if op in HEADED else members


def _ranges(op: str, sizes: Sequence[int], pieces: int) -> tuple[Array, Array]:
    """Elements [level, rank] that the rank's group of each level works on: start and stop."""
    ranks = np.arange(int(product(sizes)))
    starts, stops = np.zeros((2, len(sizes), len(ranks)), dtype=np.int64)
    stops[:] = pieces
    if op in ("broadcast", "reduce"):
        return starts, stops
    order = list(range(len(sizes)))
    for level, then in zip(*((order[::-1], order[-2::-1]) if op in HEADED else (order, order[1:])), strict=False):
        place = ranks // int(product(sizes[:level])) % sizes[level]
        edges = cut(starts[level], stops[level], sizes[level])
        starts[then], stops[then] = edges[ranks, place], edges[ranks, place + 1]
    return starts, stops


WAY = Way(price, program, work, count, "sum over phases, each by the fastest algorithm of its level")
