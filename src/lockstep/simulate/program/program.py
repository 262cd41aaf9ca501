"""`Program`: a parallel program as frozen arrays, one entry per operation. The object that is priced, simulated, run,
drawn.

Lanes.         A lane is one (rank, stream). Operations on one lane run one after another in the order they were added.
               `after` adds dependencies on earlier operations of any lane or rank. Different lanes overlap freely.
compute        occupies its lane for `duration_s`.
send, recv     one message: the k-th send i -> j with tag t meets the k-th receive at j from i with tag t, counted in
               the order added. Postal model with rendezvous: both start at max(send ready, receive ready) and both end
               `latency_s + size_B / bandwidth_Bps` later (or `duration_s` later when given). Each lane is one port:
               sends and receives of a rank overlap because they sit on different lanes (`send`, `recv`) by default.
reduce         buffer[chunk] += source[source_start : ...]; takes `reduce_s_per_B * size_B` (or `duration_s`).
copy           buffer[chunk] = source[source_start : ...]; takes no time unless `duration_s` is given.
barrier        one operation per member rank; all start and end together when the last member is ready.
collective     a whole collective as one operation per member rank: all members start together when the last one is
               ready and end together after the price of (op, algorithm, ranks, size_B), or after `duration_s`.
memory         `memory_start_B` is added to the rank's memory when an operation starts, `memory_end_B` when it ends.
buffers        Data has names: `data` (input and result) and scratch such as `inbox`. A chunk is a half-open element
               range [start, stop) of the named buffer on the operation's own rank. No chunk means: no data, only time
               and bytes.

`duration_s` is NaN where the time is not given but priced by whoever simulates. Text lives once in `names`; the columns
label, buffer, source, op and algorithm hold indices into it, -1 for none. A column with one value for all operations is
stored as a broadcast view, so that 10^7 operations fit in a few hundred MB.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum
from functools import cached_property

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Array
from lockstep.base.units import format_size, format_time
from lockstep.simulate.program.graph import TaskGraph, task_graph


class Kind(IntEnum):
    """What an operation does."""

    COMPUTE = 0
    SEND = 1
    RECV = 2
    REDUCE = 3
    COPY = 4
    BARRIER = 5
    COLLECTIVE = 6


# name -> (dtype, value when not given). Times s, sizes B, chunks in elements.
COLUMNS: Mapping[str, tuple[type[np.generic], float]] = {
    "kind": (np.uint8, 0),
    "rank": (np.int32, 0),
    "stream": (np.int16, 0),
    "peer": (np.int32, -1),
    "tag": (np.int32, 0),
    "size_B": (np.float64, 0.0),
    "duration_s": (np.float64, np.nan),
    "flops": (np.float64, 0.0),
    "buffer": (np.int32, -1),
    "source": (np.int32, -1),
    "chunk_start": (np.int64, 0),
    "chunk_stop": (np.int64, 0),
    "source_start": (np.int64, 0),
    "label": (np.int32, -1),
    "memory_start_B": (np.float64, 0.0),
    "memory_end_B": (np.float64, 0.0),
    "group": (np.int32, -1),
    "op": (np.int32, -1),
    "algorithm": (np.int32, -1),
}


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of a program, for reading and printing; `Program[i]` makes it."""

    id: int
    kind: str
    rank: int
    stream: str
    peer: int
    size_B: float
    duration_s: float
    label: str
    chunk: tuple[int, int]
    after: tuple[int, ...]

    def __str__(self) -> str:
        arrow = {"send": f" -> {self.peer}", "recv": f" <- {self.peer}"}.get(self.kind, "")
        size = f" {format_size(self.size_B)}" if self.size_B else ""
        time = "" if np.isnan(self.duration_s) else f" {format_time(self.duration_s)}"
        chunk = f" [{self.chunk[0]}:{self.chunk[1]}]" if self.chunk[1] > self.chunk[0] else ""
        label = f" {self.label!r}" if self.label else ""
        after = f" after {', '.join(map(str, self.after))}" if self.after else ""
        return f"#{self.id} rank {self.rank} / {self.stream}: {self.kind}{arrow}{label}{size}{time}{chunk}{after}"


@dataclass(frozen=True, eq=False, repr=False)
class Program:
    """Ranks x streams and their operations; made by `ProgramBuilder.build`, which checks it."""

    ranks: int
    streams: tuple[str, ...]
    names: tuple[str, ...]
    columns: Mapping[str, Array]
    match: Array
    """For a send its receive, for a receive its send, else -1."""
    after_start: Array
    after: Array
    """CSR: operation i waits for `after[after_start[i]:after_start[i + 1]]`, beside its predecessor on the lane."""

    def __getattr__(self, name: str) -> Array:
        if name in COLUMNS:
            return self.columns[name]
        raise AttributeError(f"a Program has no column {name!r}; columns: {', '.join(COLUMNS)}")

    def __len__(self) -> int:
        return len(self.columns["kind"])

    def __getitem__(self, index: int) -> Operation:
        if not -len(self) <= index < len(self):
            raise IndexError(f"operation {index} of {len(self)}")
        i = index % len(self)
        c = self.columns
        return Operation(
            id=i,
            kind=Kind(int(c["kind"][i])).name.lower(),
            rank=int(c["rank"][i]),
            stream=self.streams[int(c["stream"][i])],
            peer=int(c["peer"][i]),
            size_B=float(c["size_B"][i]),
            duration_s=float(c["duration_s"][i]),
            label=self.name(int(c["label"][i])) or self.name(int(c["op"][i])),
            chunk=(int(c["chunk_start"][i]), int(c["chunk_stop"][i])),
            after=tuple(int(j) for j in self.after[self.after_start[i] : self.after_start[i + 1]]),
        )

    def __iter__(self) -> Iterator[Operation]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"<{self}>"

    def __str__(self) -> str:
        counts = np.bincount(self.columns["kind"], minlength=len(Kind))
        parts = ", ".join(f"{counts[kind]} {kind.name.lower()}" for kind in Kind if counts[kind])
        return f"Program: {self.ranks} ranks, {len(self)} operations ({parts or 'empty'})"

    def describe(self, limit: int = 40) -> str:
        """One line per operation, the first `limit` of them."""
        lines = [str(self), *(f"  {self[i]}" for i in range(min(limit, len(self))))]
        if len(self) > limit:
            lines.append(f"  ... {len(self) - limit} more")
        return "\n".join(lines)

    def name(self, index: int) -> str:
        """Text behind a label, buffer, op or algorithm index; empty for -1."""
        return self.names[index] if index >= 0 else ""

    @cached_property
    def lane(self) -> Array:
        """Lane number of each operation: rank * number of streams + stream."""
        return self.columns["rank"].astype(np.int64) * len(self.streams) + self.columns["stream"]

    @cached_property
    def groups(self) -> tuple[Array, Array]:
        """CSR (start, members): the operations of each barrier or collective, members in rank order."""
        members = np.flatnonzero(self.columns["group"] >= 0)
        group, rank = self.columns["group"][members], self.columns["rank"][members]
        members = members[np.lexsort((rank, group))]
        counts = np.bincount(group) if len(group) else np.zeros(0, dtype=np.int64)
        return np.concatenate(([0], np.cumsum(counts))), members

    @cached_property
    def graph(self) -> TaskGraph:
        """Task graph: messages, barriers and collectives fused to one node each; raises BadInput for a cycle."""
        return task_graph(self)

    # Counting: what `messages` and the conformance tests read.

    @cached_property
    def num_messages(self) -> int:
        """Number of point-to-point messages."""
        return int(np.count_nonzero(self.columns["kind"] == Kind.SEND))

    def sent_B(self) -> Array:
        """Bytes sent by each rank in point-to-point messages."""
        return self._per_rank(Kind.SEND, self.columns["size_B"])

    def received_B(self) -> Array:
        """Bytes received by each rank in point-to-point messages."""
        return self._per_rank(Kind.RECV, self.columns["size_B"])

    def reduced_B(self) -> Array:
        """Bytes reduced by each rank."""
        return self._per_rank(Kind.REDUCE, self.columns["size_B"])

    def sent_elems(self) -> Array:
        """Elements sent by each rank."""
        elems = self.columns["chunk_stop"] - self.columns["chunk_start"]
        return self._per_rank(Kind.SEND, elems).astype(np.int64)

    def messages_sent(self) -> Array:
        """Messages sent by each rank."""
        return self._per_rank(Kind.SEND, np.ones(len(self))).astype(np.int64)

    def _per_rank(self, kind: Kind, value: Array) -> Array:
        mask = self.columns["kind"] == kind
        return np.bincount(self.columns["rank"][mask], weights=value[mask], minlength=self.ranks)

    def pair_B(self) -> Array:
        """Matrix ranks x ranks: bytes sent from row to column."""
        mask = self.columns["kind"] == Kind.SEND
        flat = self.columns["rank"][mask].astype(np.int64) * self.ranks + self.columns["peer"][mask]
        total = np.bincount(flat, weights=self.columns["size_B"][mask], minlength=self.ranks**2)
        return total.reshape(self.ranks, self.ranks)
