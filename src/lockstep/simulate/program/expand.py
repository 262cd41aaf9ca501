"""`expand`: replaces collectives that are one operation by their own programs, to look inside.

Every member keeps two barriers in place of the collective, at its start and at its end, so that the expanded program
says the same: all members start together and end together. In between, the collective's program runs on streams of its
own, named `<stream>:<inner stream>`, with its rank i on the i-th member; its `data` is the collective's chunk (without
one: the `data` buffer from element 0), its scratch buffers are named like its streams. A collective that is kept lies
between its barriers beside its program: that is for looking at, and cannot be executed. Ranks that a collective's
program has besides its members, such as a switch that reduces, come after all ranks, for every group its own.

`with_members`: gives collectives that stand for a whole group, as operations of one rank, their other ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.types.arrays import Array
from lockstep.simulate.program.builder import ProgramBuilder
from lockstep.simulate.program.executor import execution_order
from lockstep.simulate.program.program import COLUMNS, Kind, Program

Programs = Callable[[str, str, tuple[int, ...], float], Program | None]
Key = tuple[str, str, tuple[int, ...], float]
Beside = dict[tuple[int, ...], tuple[int, int]]
"""Members of a group -> the first rank that is beside them alone, and how many are."""
TEXT_COLUMNS = ("label", "buffer", "source", "op", "algorithm")
Members = Mapping[int, tuple[Sequence[int], int]]
"""Operation -> the ranks of its group, and how many equal collectives, one behind another, it is."""


def expand(program: Program, programs: Programs, keep: bool = False) -> Program:
    """The program with each collective (op, algorithm, ranks, size_B) replaced by `programs(...)`; None keeps it.

    With `keep` the others are kept too, each beside its program.
    """
    inner = _inner_programs(program, programs)
    streams = dict.fromkeys(program.streams)
    for first, part in inner.items():
        outer = program.streams[int(program.stream[first])]
        streams.update(dict.fromkeys(f"{outer}:{name}" for name in part.streams))
    beside = _beside(program, inner)
    builder = ProgramBuilder(program.ranks + sum(count for _, count in beside.values()), tuple(streams))
    for text in program.names:
        builder.name(text)
    # In execution order, lanes keep their order and the members of a collective come together.
    order = np.asarray(execution_order(program), dtype=np.int64)
    start_of, end_of = np.zeros(len(program), dtype=np.int64), np.zeros(len(program), dtype=np.int64)
    group_start, members = program.groups
    replaced = {int(m): first for first in inner for m in _members(program, group_start, members, first)}
    position = 0
    while position < len(order):
        first = replaced.get(int(order[position]), -1)
        if first < 0:
            stop = position + 1
            while stop < len(order) and int(order[stop]) not in replaced:
                stop += 1
            ids = order[position:stop]
            start_of[ids] = end_of[ids] = _copy_operations(builder, program, ids)
        else:
            ids = _members(program, group_start, members, first)
            stop = position + len(ids)
            start_of[ids], end_of[ids] = _insert(builder, program, ids, inner[first], keep, beside)
        position = stop
    heads = np.repeat(np.arange(len(program)), np.diff(program.after_start))
    builder.depend(start_of[heads], end_of[program.after])
    return builder.build()


def _members(program: Program, group_start: Array, members: Array, first: int) -> Array:
    group = int(program.group[first])
    return members[group_start[group] : group_start[group + 1]]


def _inner_programs(program: Program, programs: Programs) -> dict[int, Program]:
    """First member of each collective to replace -> its program; equal collectives ask once."""
    known: dict[Key, Program | None] = {}
    result = {}
    start, members = program.groups
    for low, high in zip(start[:-1].tolist(), start[1:].tolist(), strict=True):
        first = int(members[low])
        if program.kind[first] != Kind.COLLECTIVE:
            continue
        ranks = tuple(program.rank[members[low:high]].tolist())
        names = program.name(int(program.op[first])), program.name(int(program.algorithm[first]))
        key = (*names, ranks, float(program.size_B[first]))
        if key not in known:
            known[key] = programs(*key)
        part = known[key]
        if part is not None:
            if part.ranks < len(ranks):
                raise BadInput(f"{names[0]} among {len(ranks)} ranks got a program for {part.ranks} ranks")
            result[first] = part
    return result


def _beside(program: Program, inner: Mapping[int, Program]) -> Beside:
    """Where the ranks that programs have besides the members of each group are."""
    found: Beside = {}
    group_start, members = program.groups
    for first, part in inner.items():
        ranks = tuple(program.rank[_members(program, group_start, members, first)].tolist())
        found[ranks] = 0, max(part.ranks - len(ranks), found.get(ranks, (0, 0))[1])
    counts = [count for _, count in found.values()]
    starts = (program.ranks + sum(counts[:i]) for i in range(len(counts)))
    return {ranks: (start, count) for ranks, start, count in zip(found, starts, counts, strict=True)}


def _copy_operations(builder: ProgramBuilder, program: Program, ids: Array, **changes: Any) -> Array:
    """Adds operations, unchanged but for `changes`, in the order of `ids`."""
    columns = {name: program.columns[name][ids] for name in COLUMNS} | changes
    columns["group"] = _renumbered(columns["group"])
    return builder.extend(**columns)


def _renumbered(group: Array) -> Array:
    """Groups counted from 0 without gaps, -1 kept."""
    used = np.unique(group[group >= 0])
    return np.where(group >= 0, np.searchsorted(used, group), -1)


def _insert(
    builder: ProgramBuilder, program: Program, ids: Array, part: Program, keep: bool, beside: Beside
) -> tuple[Array, Array]:
    """Adds barrier, inner program, barrier for the members `ids`; returns the ids of both barriers."""
    members, first = program.rank[ids], int(ids[0])
    ranks = np.concatenate((members, np.arange(part.ranks - len(ids)) + beside[tuple(members.tolist())][0]))
    barrier = {
        "kind": Kind.BARRIER,
        "rank": members,
        "stream": program.stream[ids],
        "label": program.label[ids],
        "group": 0,
    }
    begin = builder.extend(**barrier, memory_start_B=program.memory_start_B[ids])
    if keep:
        _copy_operations(builder, program, ids, memory_start_B=0.0, memory_end_B=0.0)
    columns = {name: part.columns[name] for name in COLUMNS}
    outer = program.streams[int(program.stream[first])]
    for name in TEXT_COLUMNS:
        # Scratch becomes the stream's own, so that collectives on different streams do not meet in one inbox.
        own = f"{outer}:" if name in ("buffer", "source") else ""
        table = [builder.name(text if text == "data" else own + text) for text in part.names] + [-1]
        columns[name] = np.array(table)[columns[name]]
    if program.buffer[first] >= 0:
        _move_data(columns, builder.name("data"), int(program.buffer[first]), int(program.chunk_start[first]))
    stream = np.array([builder.stream(f"{outer}:{name}") for name in part.streams])
    columns["rank"], columns["stream"] = ranks[part.rank], stream[part.stream]
    columns["peer"] = np.where(part.peer >= 0, ranks[part.peer], -1)
    added = builder.extend(**columns)
    builder.depend(added[np.repeat(np.arange(len(part)), np.diff(part.after_start))], added[part.after])
    end = builder.extend(**barrier, memory_end_B=program.memory_end_B[ids])
    by_lane = np.argsort(part.lane, kind="stable")
    changes = part.lane[by_lane[1:]] != part.lane[by_lane[:-1]]
    edge = np.ones(1 if len(part) else 0, dtype=bool)
    opening, closing = by_lane[np.concatenate((edge, changes))], by_lane[np.concatenate((changes, edge))]
    # Ranks beside the members have no barrier of their own, and all barriers are at one time.
    builder.depend(added[opening], begin[np.minimum(part.rank[opening], len(ids) - 1)])
    builder.depend(end[np.minimum(part.rank[closing], len(ids) - 1)], added[closing])
    return begin, end


def _move_data(columns: dict[str, Array], inner: int, outer: int, offset: int) -> None:
    """Lets the inner program's `data` be the outer buffer from element `offset` on."""
    for name, starts in (("buffer", ("chunk_start", "chunk_stop")), ("source", ("source_start",))):
        here = columns[name] == inner
        columns[name] = np.where(here, outer, columns[name])
        for start in starts:
            columns[start] = np.where(here, columns[start] + offset, columns[start])


def with_members(program: Program, members: Members, ranks: int) -> Program:
    """The same program on `ranks` ranks, those of `members` doing nothing but their collectives."""
    copies = np.ones(len(program), dtype=np.int64)
    for i, (group, times) in members.items():
        copies[i] = len(group) * times
    row, start = np.repeat(np.arange(len(program)), copies), np.cumsum(copies) - copies
    columns, turn = {name: program.columns[name][row] for name in COLUMNS}, np.zeros(len(row), dtype=np.int64)
    end = start.copy()
    for i, (group, times) in members.items():
        end[i] += (times - 1) * len(group)
        here = slice(int(start[i]), int(start[i] + copies[i]))
        turn[here], columns["rank"][here] = np.repeat(np.arange(times), len(group)), np.tile(group, times)
        columns["size_B"][here] /= times
        columns["duration_s"][here] /= times
    grouped = columns["group"] >= 0
    named = columns["group"][grouped] * (1 + turn.max(initial=0)) + turn[grouped]
    columns["group"][grouped] = np.unique(named, return_inverse=True)[1]
    builder = ProgramBuilder(ranks, program.streams)
    for text in program.names:
        builder.name(text)
    builder.extend(**columns)
    heads = np.repeat(np.arange(len(program)), np.diff(program.after_start))
    builder.depend(start[heads], end[program.after])
    return builder.build()
