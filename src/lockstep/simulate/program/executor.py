"""Runs a program in process on numpy buffers: what it computes, not how long it takes.

A buffer is a list with one array per rank; its first axis is the element axis, further axes ride along. With integer
arrays of one column per rank as elements (`contributions`) the same run is a symbolic proof: after an all-reduce every
entry must be exactly one. `tokens` gives every element of every rank its own number, for collectives that only move
data.

Scratch buffers that are not given are made as large as the program uses them and filled with poison, so that reading
what was never written shows. `order_seed` runs the operations in another order that the dependencies allow: a program
whose result depends on the order has a race.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.types.arrays import Array
from lockstep.simulate.program.program import Kind, Program

Buffers = dict[str, list[Array]]
POISON_INTEGER = -(2**20)


def contributions(ranks: int, elems: int) -> list[Array]:
    """Symbolic `data`: element e of rank r is the unit vector of r, so sums count who contributed how often."""
    unit = np.eye(ranks, dtype=np.int32)
    return [np.tile(unit[rank], (elems, 1)) for rank in range(ranks)]


def tokens(ranks: int, elems: int) -> list[Array]:
    """Symbolic `data`: element e of rank r is the number r * elems + e, different from all others."""
    return [np.arange(rank * elems, (rank + 1) * elems, dtype=np.int64) for rank in range(ranks)]


def execute(
    program: Program,
    buffers: Mapping[str, Sequence[Array]],
    *,
    combine: Callable[[Array, Array], Array] = np.add,
    order_seed: int | None = None,
) -> Buffers:
    """Buffers after the program; the ones given are not changed. `combine` is the reduction, a sum by default."""
    state = _prepare(program, buffers)
    if (program.kind == Kind.COLLECTIVE).any():
        raise BadInput("a collective as one operation has no data to run; expand the program first (program.expand)")
    c = {name: program.columns[name].tolist() for name in ("kind", "rank", "chunk_start", "chunk_stop", "source_start")}
    buffer = [program.name(i) for i in program.columns["buffer"].tolist()]
    source = [program.name(i) for i in program.columns["source"].tolist()]
    match = program.match.tolist()
    for i in execution_order(program, order_seed):
        start, stop = c["chunk_start"][i], c["chunk_stop"][i]
        if stop == start:
            continue
        kind, target = c["kind"][i], state[buffer[i]][c["rank"][i]]
        if kind == Kind.RECV:
            j = match[i]
            origin = state[buffer[j]][c["rank"][j]]
            target[start:stop] = origin[c["chunk_start"][j] : c["chunk_stop"][j]]
        elif kind in (Kind.REDUCE, Kind.COPY):
            origin = state[source[i]][c["rank"][i]]
            first = c["source_start"][i]
            value = origin[first : first + stop - start]
            target[start:stop] = combine(target[start:stop], value) if kind == Kind.REDUCE else value
    return state


def execution_order(program: Program, seed: int | None = None) -> Sequence[int]:
    """Operation ids in an order that the dependencies allow: the task graph's own, or a random one for a seed."""
    nodes = program.graph.node
    if seed is None:
        return np.argsort(nodes, kind="stable").tolist()  # type: ignore[no-any-return]
    before = np.stack(program.graph.before, axis=1).tolist()
    priority = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed))).random(program.graph.num_nodes)
    successors: list[list[int]] = [[] for _ in before]
    waiting = [0] * len(before)
    for v, previous in enumerate(before):
        for u in {p for p in previous if p}:
            successors[u].append(v)
            waiting[v] += 1
    ready = [(priority[v], v) for v, count in enumerate(waiting) if not count]
    heapq.heapify(ready)
    place = np.empty(len(before), dtype=np.int64)
    for step in range(len(before)):
        _, v = heapq.heappop(ready)
        place[v] = step
        for w in successors[v]:
            waiting[w] -= 1
            if not waiting[w]:
                heapq.heappush(ready, (priority[w], w))
    return np.argsort(place[nodes], kind="stable").tolist()  # type: ignore[no-any-return]


def _prepare(program: Program, buffers: Mapping[str, Sequence[Array]]) -> Buffers:
    """Copies of the given buffers, checked for size, and poisoned scratch for the others."""
    state = {name: [np.array(array) for array in arrays] for name, arrays in buffers.items()}
    for name, arrays in state.items():
        if len(arrays) != program.ranks:
            raise BadInput(f"buffer {name!r} has arrays for {len(arrays)} ranks, the program has {program.ranks} ranks")
    model = next((arrays[0] for arrays in state.values()), np.zeros(0))
    for name, extent in extents(program).items():
        if name not in state:
            state[name] = [_poisoned((int(elems), *model.shape[1:]), model.dtype) for elems in extent]
        for rank, elems in enumerate(extent):
            if len(state[name][rank]) < elems:
                raise BadInput(
                    f"the program uses {elems} elements of buffer {name!r} on rank {rank}, got {len(state[name][rank])}"
                )
    return state


def extents(program: Program) -> dict[str, Array]:
    """Elements used of each buffer: array (ranks,) by the buffer's name."""
    used: dict[str, Array] = {}
    length = program.chunk_stop - program.chunk_start
    for index, stop in ((program.buffer, program.chunk_stop), (program.source, program.source_start + length)):
        for number in np.unique(index[(index >= 0) & (length > 0)]).tolist():
            here = (index == number) & (length > 0)
            extent = used.setdefault(program.name(number), np.zeros(program.ranks, dtype=np.int64))
            np.maximum.at(extent, program.rank[here], stop[here])
    return used


def _poisoned(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    poison = np.nan if np.issubdtype(dtype, np.inexact) else max(POISON_INTEGER, int(np.iinfo(dtype).min))
    return np.full(shape, poison, dtype=dtype)
