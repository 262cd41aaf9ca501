"""Checks of a program's arrays and the matching of sends with receives. Every error names the operation."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.types.arrays import Array
from lockstep.simulate.program.program import Kind


def check_columns(columns: Mapping[str, Array], ranks: int, streams: tuple[str, ...]) -> None:
    """Raises BadInput for the first operation with a value that is not allowed."""
    kind, rank, peer = columns["kind"], columns["rank"], columns["peer"]
    messages = (kind == Kind.SEND) | (kind == Kind.RECV)
    together = (kind == Kind.BARRIER) | (kind == Kind.COLLECTIVE)
    size_B, duration_s = columns["size_B"], columns["duration_s"]
    length = columns["chunk_stop"] - columns["chunk_start"]
    memory_B = columns["memory_start_B"] + columns["memory_end_B"]
    rules = (
        (kind > max(Kind), kind, f"kind must be 0 .. {max(Kind):d}"),
        ((rank < 0) | (rank >= ranks), rank, f"ranks are 0 .. {ranks - 1}"),
        ((columns["stream"] < 0) | (columns["stream"] >= len(streams)), columns["stream"], f"streams are {streams}"),
        (messages & ((peer < 0) | (peer >= ranks)), peer, f"the peer must be a rank, 0 .. {ranks - 1}"),
        (messages & (peer == rank), peer, "a rank sends no message to itself; use copy"),
        (~((size_B >= 0) & (size_B < np.inf)), size_B, "size_B must be finite and not negative"),
        ((duration_s < 0) | np.isinf(duration_s), duration_s, "duration_s must be finite and not negative"),
        ((kind == Kind.COMPUTE) & np.isnan(duration_s), duration_s, "a compute operation needs its duration_s"),
        ((length < 0) | (columns["chunk_start"] < 0), length, "a chunk is (start, stop) with 0 <= start <= stop"),
        (columns["source_start"] < 0, columns["source_start"], "source_start must not be negative"),
        (~np.isfinite(memory_B), memory_B, "memory changes must be finite"),
        (together != (columns["group"] >= 0), columns["group"], "only barriers and collectives have a group"),
    )
    for wrong, value, allowed in rules:
        if wrong.any():
            i = int(np.flatnonzero(wrong)[0])
            name = Kind(int(kind[i])).name.lower() if kind[i] <= max(Kind) else "operation"
            raise BadInput(f"operation {i} ({name} on rank {rank[i]}): {allowed}; got {value[i]}")
    if together.any():
        _check_groups(columns)


def _check_groups(columns: Mapping[str, Array]) -> None:
    """Members of a group are on different ranks and agree on what they do."""
    members = np.flatnonzero(columns["group"] >= 0)
    members = members[np.lexsort((columns["rank"][members], columns["group"][members]))]
    group, rank = columns["group"][members], columns["rank"][members]
    same = group[1:] == group[:-1]
    if (twice := same & (rank[1:] == rank[:-1])).any():
        i = int(np.flatnonzero(twice)[0])
        raise BadInput(f"rank {rank[i]} is twice in one collective (operations {members[i]}, {members[i + 1]})")
    for name in ("kind", "op", "algorithm", "size_B", "duration_s"):
        value = columns[name][members]
        differs = same & (value[1:] != value[:-1]) & ~((value[1:] != value[1:]) & (value[:-1] != value[:-1]))
        if differs.any():
            i = int(np.flatnonzero(differs)[0])
            raise BadInput(
                f"members {members[i]} and {members[i + 1]} of one collective differ in {name}: "
                f"{value[i]} and {value[i + 1]}; all members must agree"
            )
    if len(group) and len(np.unique(group)) != int(group.max()) + 1:
        raise BadInput("groups must be numbered 0, 1, 2, ... without gaps")


def match_messages(columns: Mapping[str, Array]) -> Array:
    """For each send the id of its receive and the other way round, -1 for other operations.

    The k-th send i -> j with a tag meets the k-th receive at j from i with that tag.
    """
    kind = columns["kind"]
    match = np.full(len(kind), -1, dtype=np.int64)
    send, recv = np.flatnonzero(kind == Kind.SEND), np.flatnonzero(kind == Kind.RECV)
    rank, peer, tag = columns["rank"], columns["peer"], columns["tag"]
    send = send[np.lexsort((tag[send], peer[send], rank[send]))]
    recv = recv[np.lexsort((tag[recv], rank[recv], peer[recv]))]
    common = min(len(send), len(recv))
    s, r = send[:common], recv[:common]
    differs = (rank[s] != peer[r]) | (peer[s] != rank[r]) | (tag[s] != tag[r])
    if differs.any() or len(send) != len(recv):
        raise _unmatched(columns, send, recv)
    _check_pairs(columns, send, recv)
    match[send], match[recv] = recv, send
    return match


def _unmatched(columns: Mapping[str, Array], send: Array, recv: Array) -> BadInput:
    """The error for the first (sender, receiver, tag) whose counts differ."""
    ends = np.concatenate(
        (
            np.stack((columns["rank"][send], columns["peer"][send], columns["tag"][send]), axis=1),
            np.stack((columns["peer"][recv], columns["rank"][recv], columns["tag"][recv]), axis=1),
        )
    )
    keys, index = np.unique(ends, axis=0, return_inverse=True)
    index = index.ravel()
    sends = np.bincount(index[: len(send)], minlength=len(keys))
    recvs = np.bincount(index[len(send) :], minlength=len(keys))
    i = int(np.flatnonzero(sends != recvs)[0])
    source, destination, tag = (int(v) for v in keys[i])
    missing = f"recv({destination}, {source}, ...)" if sends[i] > recvs[i] else f"send({source}, {destination}, ...)"
    return BadInput(
        f"rank {source} sends {sends[i]} messages to rank {destination} with tag {tag}, "
        f"but {recvs[i]} are received; add {missing}"
    )


def _check_pairs(columns: Mapping[str, Array], send: Array, recv: Array) -> None:
    """Both ends of a message agree on bytes, elements and time."""
    elems = columns["chunk_stop"] - columns["chunk_start"]
    for name, value in (("size_B", columns["size_B"]), ("elements", elems), ("duration_s", columns["duration_s"])):
        a, b = value[send], value[recv]
        differs = (a != b) & ~((a != a) & (b != b))
        if differs.any():
            i = int(np.flatnonzero(differs)[0])
            raise BadInput(
                f"send {send[i]} (rank {columns['rank'][send[i]]} to {columns['peer'][send[i]]}) and its receive "
                f"{recv[i]} differ in {name}: {a[i]} and {b[i]}; both ends must agree"
            )
