"""The task graph behind a program: nodes in topological order, each with at most four predecessors.

A message (send and receive), a barrier and a collective are one node each, because their members start and end
together. Node 0 is the start of time. Nodes with more predecessors than FAN_IN get helper nodes of no duration (a
balanced tree), so that one step of the longest-path pass is a fixed number of gathers whatever the program looks like.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Array

if TYPE_CHECKING:
    from lockstep.simulate.program.program import Program


FAN_IN = 4
# Below this many nodes per level, frontiers in numpy lose to a loop over Python lists (measured).
WIDE = 24


@dataclass(frozen=True, eq=False)
class TaskGraph:
    """Nodes 0 .. num_nodes - 1 in topological order; node 0 is the start of time."""

    num_nodes: int
    node: Array
    """Node of each operation."""
    before: tuple[Array, ...]
    """`before[k][v]`: the k-th predecessor of node v (0, the start of time, when it has fewer)."""
    longest_lane: int
    """Operations on the longest lane: a lower bound of the depth."""

    @cached_property
    def level(self) -> Array:
        """Depth of each node: the number of nodes on the longest path to it."""
        return np.rint(longest_path(self.before, np.ones(self.num_nodes))).astype(np.int64) - 1

    def is_wide(self, nodes_per_level: float) -> bool:
        """Whether levels hold at least that many nodes on average; avoids computing levels for surely thin graphs."""
        return self.num_nodes >= nodes_per_level * self.longest_lane and self.num_nodes >= nodes_per_level * self.depth

    @cached_property
    def depth(self) -> int:
        """Number of levels."""
        return int(self.level.max()) + 1

    @cached_property
    def passed_before(self) -> bool:
        """Present in `vars(graph)` once a pass was made: finding levels pays from the second pass on."""
        return True

    @cached_property
    def wavefront(self) -> Wavefront:
        """The nodes level by level, for passes that take a level at a time."""
        num_before = np.zeros(self.num_nodes, dtype=np.int8)
        for column in self.before:
            num_before += column > 0
        order = np.argsort(self.level * (FAN_IN + 1) - num_before, kind="stable")
        position = np.empty(self.num_nodes, dtype=np.int32)
        position[order] = np.arange(self.num_nodes, dtype=np.int32)
        starts = np.concatenate(([0], np.cumsum(np.bincount(self.level))))
        counts = tuple(
            np.bincount(self.level[num_before > k], minlength=self.depth).tolist() for k in range(1, len(self.before))
        )
        return Wavefront(order, starts.tolist(), tuple(position[column[order]] for column in self.before), counts)


@dataclass(frozen=True, eq=False, slots=True)
class Wavefront:
    """Nodes sorted by level, those with most predecessors first."""

    order: Array
    """Nodes of the graph in this order."""
    start: list[int]
    """Level l is order[start[l]:start[l + 1]]."""
    before: tuple[Array, ...]
    """Predecessors in the numbering of this order."""
    counts: tuple[list[int], ...]
    """counts[k - 1][l]: how many nodes of level l (the first ones) have a k-th predecessor, k = 1, 2, ..."""


def task_graph(program: Program) -> TaskGraph:
    """Task graph of a program. Raises BadInput, naming operations, when they wait for one another in a cycle."""
    representative = _fused(program)
    number = np.cumsum(representative == np.arange(len(program)), dtype=np.int64)
    node = number[representative]
    num_nodes = int(number[-1]) + 1 if len(program) else 1
    tail, head, key = _bounded_fan_in(*_edges(program, node), num_nodes)
    if (key[tail] < key[head]).all():
        order = np.argsort(key, kind="stable")
    else:
        order = _sorted_topologically(tail, head, key)
        if len(order) < len(key):
            raise _circle(program, node, tail, head, order)
    position = np.empty(len(key), dtype=np.int32)
    position[order] = np.arange(len(key), dtype=np.int32)
    before = _predecessors(position[tail], position[head], len(key))
    longest = int(np.bincount(program.lane).max(initial=0))
    return TaskGraph(len(key), position[node], before, longest)


def _fused(program: Program) -> Array:
    """The last member of each operation's node: the last, so that id order is topological whenever it can be."""
    representative = np.arange(len(program))
    paired = program.match >= 0
    representative[paired] = np.maximum(representative[paired], program.match[paired])
    start, members = program.groups
    if len(members):
        last = np.maximum.reduceat(members, start[:-1])
        representative[members] = np.repeat(last, np.diff(start))
    return representative


def _edges(program: Program, node: Array) -> tuple[Array, Array]:
    """Node-level edges (tail, head) of lane order and `after`, each once, sorted by head."""
    by_lane = np.argsort(program.lane, kind="stable")
    same = program.lane[by_lane[1:]] == program.lane[by_lane[:-1]]
    heads = np.repeat(np.arange(len(program)), np.diff(program.after_start))
    tail = node[np.concatenate((by_lane[:-1][same], program.after))]
    head = node[np.concatenate((by_lane[1:][same], heads))]
    return _sorted_by_head(tail, head)


def _sorted_by_head(tail: Array, head: Array) -> tuple[Array, Array]:
    """Edges sorted by (head, tail) without repetitions."""
    order = np.lexsort((tail, head))
    tail, head = tail[order], head[order]
    fresh = np.ones(len(tail), dtype=bool)
    fresh[1:] = (tail[1:] != tail[:-1]) | (head[1:] != head[:-1])
    return tail[fresh], head[fresh]


def _place(head: Array) -> Array:
    """Position of each edge among those with the same head; `head` is sorted."""
    index = np.arange(len(head))
    first = np.ones(len(head), dtype=bool)
    first[1:] = head[1:] != head[:-1]
    return index - np.maximum.accumulate(np.where(first, index, 0))


def _bounded_fan_in(tail: Array, head: Array, num_nodes: int) -> tuple[Array, Array, Array]:
    """(tail, head, key): at most FAN_IN predecessors per node, by helper nodes; `key` orders helpers before their
    node.
    """
    key = np.arange(num_nodes, dtype=np.float64)
    level = 2
    while (crowded := np.bincount(head, minlength=len(key))[head] > FAN_IN).any():
        leads = crowded & (_place(head) % FAN_IN == 0)
        number = len(key) - 1 + np.cumsum(leads)
        key = np.concatenate((key, key[head[leads]] - 1.0 / level))
        tail = np.concatenate((tail, number[leads]))
        head = np.concatenate((np.where(crowded, number, head), head[leads]))
        tail, head = _sorted_by_head(tail, head)
        level += 1
    return tail, head, key


def _predecessors(tail: Array, head: Array, num_nodes: int) -> tuple[Array, ...]:
    """`before` arrays of the edges; the start of time fills the places that are free."""
    tail, head = _sorted_by_head(tail, head)
    place = _place(head)
    width = int(place.max()) + 1 if len(place) else 1
    before = [np.zeros(num_nodes, dtype=np.int32) for _ in range(width)]
    for k in range(width):
        here = place == k
        before[k][head[here]] = tail[here]
    return tuple(before)


def _sorted_topologically(tail: Array, head: Array, key: Array) -> Array:
    """Nodes in topological order (Kahn), the start of time first; shorter than the graph when there is a circle."""
    num_nodes = len(key)
    order = np.argsort(tail, kind="stable")
    after = head[order]
    start = np.concatenate(([0], np.cumsum(np.bincount(tail, minlength=num_nodes))))
    waiting = np.bincount(head, minlength=num_nodes)
    done: list[Array] = []
    frontier = np.flatnonzero(waiting == 0)
    num_done = 0
    while len(frontier):
        done.append(frontier)
        num_done += len(frontier)
        if len(done) == 64 and num_done < 64 * WIDE:
            return _sorted_one_by_one(after, start, np.bincount(head, minlength=num_nodes))
        counts = start[frontier + 1] - start[frontier]
        offsets = np.repeat(start[frontier] - np.cumsum(counts) + counts, counts)
        reached = after[offsets + np.arange(len(offsets))]
        np.subtract.at(waiting, reached, 1)
        frontier = np.unique(reached[waiting[reached] == 0])
    return np.concatenate(done)


def _sorted_one_by_one(after: Array, start: Array, waiting: Array) -> Array:
    """Kahn over Python lists: faster than frontiers of a few nodes each."""
    successors, begin, left = after.tolist(), start.tolist(), waiting.tolist()
    order = [v for v, count in enumerate(left) if not count]
    for v in order:
        for w in successors[begin[v] : begin[v + 1]]:
            left[w] -= 1
            if not left[w]:
                order.append(w)
    return np.array(order, dtype=np.int64)


def _circle(program: Program, node: Array, tail: Array, head: Array, done: Array) -> BadInput:
    """The error for operations that wait for one another: walks backwards among the stuck nodes until one repeats."""
    stuck = np.ones(int(max(tail.max(), head.max())) + 1, dtype=bool)
    stuck[done[done < len(stuck)]] = False
    inside = stuck[tail] & stuck[head]
    previous = dict(zip(head[inside].tolist(), tail[inside].tolist(), strict=True))
    walk = [min(previous)]
    while (back := previous[walk[-1]]) not in walk:
        walk.append(back)
    circle = walk[walk.index(back) :][::-1]
    first_member = {int(v): i for i, v in reversed(list(enumerate(node.tolist())))}
    shown = [str(program[first_member[v]]) for v in circle if v in first_member]
    text = "\n  ".join(shown[:6] + (["..."] if len(shown) > 6 else []))
    return BadInput(
        f"{len(shown)} operations wait for one another in a cycle, so none can start:\n  {text}\n"
        "a send and its receive start together: put sends and receives on different streams, or change their order"
    )


def longest_path(before: tuple[Array, ...], duration: Array) -> Array:
    """End of each node: the longest path to it, itself included, in one pass over Python lists (block by block)."""
    end = [float(duration[0])]
    append = end.append
    block = 1 << 16
    for low in range(1, len(duration), block):
        part = slice(low, low + block)
        weights = duration[part].tolist()
        columns = [column[part].tolist() for column in before]
        # Columns that a graph does not have point to the start of time, which is never later than anything.
        columns += [[0] * len(weights)] * ((2 if len(columns) <= 2 else FAN_IN) - len(columns))
        if len(columns) == 2:
            for a, b, weight in zip(*columns, weights, strict=True):
                x, y = end[a], end[b]
                append((x if x > y else y) + weight)
            continue
        for a, b, c, d, weight in zip(*columns, weights, strict=True):
            x, y = end[a], end[b]
            if y > x:
                x = y
            y = end[c]
            if y > x:
                x = y
            y = end[d]
            if y > x:
                x = y
            append(x + weight)
    return np.array(end)
