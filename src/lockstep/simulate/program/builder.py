"""`ProgramBuilder`: adds operations one by one, or millions at a time as arrays, and builds the checked `Program`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from lockstep.base.errors import BadInput, UnknownName
from lockstep.base.types.arrays import Array
from lockstep.simulate.program.check import check_columns, match_messages
from lockstep.simulate.program.program import COLUMNS, Kind, Program

Chunk = tuple[int, int]
After = int | Iterable[int]

DEFAULT_STREAMS = ("compute", "comm", "send", "recv")
# Where an operation goes when no stream is named: the first of these that the builder has, else its first stream.
HOME = {
    Kind.COMPUTE: ("compute",), Kind.REDUCE: ("compute",), Kind.COPY: ("compute",),
    Kind.SEND: ("send", "comm"), Kind.RECV: ("recv", "comm"),
    Kind.BARRIER: ("comm",), Kind.COLLECTIVE: ("comm",),
}  # fmt: skip
PLACE = {name: i for i, name in enumerate(COLUMNS)}
DEFAULT_ROW: list[Any] = [default for _, default in COLUMNS.values()]
MOVES_DATA = (Kind.SEND, Kind.RECV, Kind.REDUCE, Kind.COPY)


class ProgramBuilder:
    """Collects operations; every method returns the id (or ids) of what it added. Semantics:
    `lockstep.simulate.program.program`.
    """

    def __init__(self, ranks: int, streams: Sequence[str] = DEFAULT_STREAMS) -> None:
        if ranks < 1:
            raise BadInput(f"a program needs at least 1 rank, got {ranks}")
        if not streams or len(set(streams)) != len(streams):
            raise BadInput(f"stream names must be different and at least one, got {tuple(streams)!r}")
        self.ranks = ranks
        self.streams = tuple(streams)
        self._stream_number = {name: i for i, name in enumerate(self.streams)}
        self._home = {kind: self._home_of(names) for kind, names in HOME.items()}
        self._names: dict[str, int] = {}
        self._size = 0
        self._groups = 0
        self._rows: list[list[Any]] = []
        self._segments: list[tuple[int, dict[str, Array]]] = []
        """Of operations added together: the first one's id and what columns were given, an array or one value each."""
        self._heads: list[Array] = []
        self._tails: list[Array] = []
        self._edges: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return self._size

    def _home_of(self, names: tuple[str, ...]) -> int:
        return next((self._stream_number[name] for name in names if name in self._stream_number), 0)

    def name(self, text: str) -> int:
        """Index of a label, buffer, op or algorithm in the program's `names`; -1 for empty text."""
        return self._names.setdefault(text, len(self._names)) if text else -1

    def stream(self, name: str) -> int:
        """Index of a stream."""
        if name not in self._stream_number:
            raise UnknownName("stream", name, self.streams)
        return self._stream_number[name]

    def compute(
        self,
        rank: int,
        duration_s: float,
        *,
        label: str = "",
        after: After = (),
        stream: str | None = None,
        memory_start_B: float = 0.0,
        memory_B: float = 0.0,
        flops: float = 0.0,
    ) -> int:
        """Work of a given time. `memory_start_B` is added to the rank's memory at the start, `memory_B` at the end."""
        return self._add(
            Kind.COMPUTE, rank, stream, after, label=label, duration_s=duration_s, flops=flops,
            memory_start_B=memory_start_B, memory_end_B=memory_B,
        )  # fmt: skip

    def send(self, rank: int, peer: int, size_B: float, **options: Any) -> int:
        """Message to `peer`. Options: chunk, buffer="data", tag, after, stream, duration_s, label, memory_B."""
        return self._transfer(Kind.SEND, rank, size_B, peer=peer, **options)

    def recv(self, rank: int, peer: int, size_B: float, **options: Any) -> int:
        """Message from `peer` into `buffer[chunk]`. Options as `send`."""
        return self._transfer(Kind.RECV, rank, size_B, peer=peer, **options)

    def message(
        self,
        source: int,
        destination: int,
        size_B: float,
        *,
        chunk: Chunk | None = None,
        to_chunk: Chunk | None = None,
        buffer: str = "data",
        to_buffer: str | None = None,
        after: After = (),
        to_after: After = (),
        **options: object,
    ) -> tuple[int, int]:
        """A send and its receive: (send id, receive id). `to_*` are the receiver's and default to the sender's."""
        send = self.send(source, destination, size_B, chunk=chunk, buffer=buffer, after=after, **options)
        recv = self.recv(
            destination, source, size_B, chunk=chunk if to_chunk is None else to_chunk,
            buffer=buffer if to_buffer is None else to_buffer, after=to_after, **options,
        )  # fmt: skip
        return send, recv

    def reduce(self, rank: int, size_B: float, *, source: str = "inbox", **options: Any) -> int:
        """buffer[chunk] += source[chunk]. Options: chunk, buffer="data", source_start (default chunk start), after,
        stream, ...
        """
        return self._transfer(Kind.REDUCE, rank, size_B, source=source, **options)

    def copy(self, rank: int, size_B: float, *, source: str = "inbox", **options: Any) -> int:
        """buffer[chunk] = source[chunk]. Options as `reduce`; takes no time unless duration_s is given."""
        return self._transfer(Kind.COPY, rank, size_B, source=source, **options)

    def barrier(
        self, ranks: Sequence[int] | None = None, *, after: After = (), stream: str | None = None, label: str = ""
    ) -> tuple[int, ...]:
        """All of `ranks` (default: every rank) wait for one another: one operation id per rank."""
        return self._group(Kind.BARRIER, range(self.ranks) if ranks is None else ranks, stream, after, label=label)

    def collective(
        self,
        ranks: Sequence[int],
        op: str,
        size_B: float,
        *,
        algorithm: str = "",
        duration_s: float = float("nan"),
        chunk: Chunk | None = None,
        buffer: str = "data",
        after: After = (),
        stream: str | None = None,
        label: str = "",
    ) -> tuple[int, ...]:
        """A whole collective among `ranks` as one operation each, priced by the simulator unless duration_s is given.

        `buffer[chunk]` is what the collective's own program works on when `expand` puts it in.
        """
        start, stop = chunk or (0, 0)
        return self._group(
            Kind.COLLECTIVE, ranks, stream, after, label=label, op=self.name(op), algorithm=self.name(algorithm),
            size_B=size_B, duration_s=duration_s, chunk_start=start, chunk_stop=stop,
            buffer=self.name(buffer) if chunk else -1,
        )  # fmt: skip

    def depend(self, operation: Array | Sequence[int] | int, on: Array | Sequence[int] | int) -> None:
        """Adds dependencies afterwards: operation[i] waits for on[i] (arrays broadcast)."""
        heads, tails = np.broadcast_arrays(np.atleast_1d(operation), np.atleast_1d(on))
        self._heads.append(heads.astype(np.int64).ravel())
        self._tails.append(tails.astype(np.int64).ravel())

    def extend(self, kind: Any, rank: Any, *, after: Any = None, **columns: Any) -> Array:
        """Adds many operations at once; returns their ids.

        Every column of `program.COLUMNS` may be given as an array or one value; stream, label, buffer, source, op and
        algorithm also as one text. `after` holds ids, shape (n,) or (n, k), -1 for none. `group` numbers the barriers
        and collectives of this call from 0.
        """
        unknown = [name for name in columns if name not in COLUMNS]
        if unknown:
            raise UnknownName("column", unknown[0], tuple(COLUMNS))
        given = {"kind": kind, "rank": rank, **columns}
        for name in ("label", "buffer", "source", "op", "algorithm"):
            if isinstance(given.get(name), str):
                given[name] = self.name(given[name])
        if isinstance(given.get("stream"), str):
            given["stream"] = self.stream(given["stream"])
        arrays = {name: np.asarray(value, dtype=COLUMNS[name][0]) for name, value in given.items()}
        num = int(np.broadcast_shapes(*{a.shape for a in arrays.values()}, (1,))[0])
        if arrays["kind"].size and int(arrays["kind"].max()) >= len(Kind):
            raise BadInput(f"kind must be 0 .. {max(Kind):d} (see Kind), got {int(arrays['kind'].max())}")
        if "stream" not in arrays:
            home = np.array([self._home[k] for k in Kind], dtype=COLUMNS["stream"][0])
            arrays["stream"] = home[arrays["kind"]]
        if "chunk_stop" in arrays:
            self._fill_data_columns(arrays)
        if "group" in arrays and arrays["group"].size:
            count = int(arrays["group"].max()) + 1
            arrays["group"] = np.where(arrays["group"] >= 0, arrays["group"] + self._groups, -1).astype(np.int32)
            self._groups += count
        return self._add_segment(arrays, num, after)

    def build(self) -> Program:
        """The checked, frozen program. Raises BadInput for an unmatched message, a bad lane or a circle."""
        self._flush()
        columns = {name: self._column(name) for name in COLUMNS}
        names = tuple(self._names)
        check_columns(columns, self.ranks, self.streams)
        match = match_messages(columns)
        start, after = self._dependencies()
        program = Program(self.ranks, self.streams, names, columns, match, start, after)
        for array in (*columns.values(), match, start, after):
            array.flags.writeable = False
        _ = program.graph
        return program

    def _transfer(
        self,
        kind: Kind,
        rank: int,
        size_B: float,
        *,
        chunk: Chunk | None = None,
        buffer: str = "data",
        source: str = "",
        source_start: int | None = None,
        memory_B: float = 0.0,
        after: After = (),
        stream: str | None = None,
        **columns: object,
    ) -> int:
        if chunk is not None:
            columns["buffer"], columns["source"] = self.name(buffer), self.name(source)
            columns["chunk_start"], columns["chunk_stop"] = chunk
            columns["source_start"] = chunk[0] if source_start is None else source_start
        return self._add(kind, rank, stream, after, size_B=size_B, memory_end_B=memory_B, **columns)

    def _group(
        self, kind: Kind, ranks: Sequence[int], stream: str | None, after: After, **columns: object
    ) -> tuple[int, ...]:
        # Members start together, so a dependency of one is a dependency of all: the first member carries them.
        group, self._groups = self._groups, self._groups + 1
        ids: list[int] = []
        for rank in ranks:
            ids.append(self._add(kind, int(rank), stream, () if ids else after, group=group, **columns))
        if not ids:
            raise BadInput(f"a {kind.name.lower()} needs at least one rank")
        return tuple(ids)

    def _add(self, kind: Kind, rank: int, stream: str | None, after: After, **columns: Any) -> int:
        index = self._size
        if "label" in columns:
            columns["label"] = self.name(columns["label"])
        number = self._home[kind] if stream is None else self.stream(stream)
        row = DEFAULT_ROW.copy()
        row[:3] = kind, rank, number
        for name, value in columns.items():
            if name not in PLACE:
                raise UnknownName("option", name, tuple(COLUMNS))
            row[PLACE[name]] = value
        self._rows.append(row)
        for other in (after,) if isinstance(after, (int, np.integer)) else after:
            self._edges.append((index, int(other)))
        self._size += 1
        return index

    def _add_segment(self, arrays: dict[str, Array], num: int, after: object) -> Array:
        self._flush()
        first = self._size
        self._segments.append((first, arrays))
        self._size += num
        if after is not None:
            on = np.asarray(after, dtype=np.int64)
            on = on if on.ndim == 2 else on.reshape(-1, 1)
            on = on if len(on) == num else np.broadcast_to(on, (num, on.shape[1]))
            waits = np.nonzero(on >= 0)
            self._heads.append(waits[0] + first)
            self._tails.append(on[waits])
        return np.arange(first, self._size)

    def _fill_data_columns(self, arrays: dict[str, Array]) -> None:
        """Defaults of the data columns in `extend`, as in the one-by-one methods."""
        for name, usual, kinds in (("buffer", "data", MOVES_DATA), ("source", "inbox", MOVES_DATA[2:])):
            if name not in arrays:
                by_kind = [self.name(usual) if kind in kinds else -1 for kind in Kind]
                arrays[name] = np.array(by_kind, dtype=COLUMNS[name][0])[arrays["kind"]]
        arrays.setdefault("chunk_start", np.zeros((), dtype=np.int64))
        arrays.setdefault("source_start", arrays["chunk_start"])

    def _flush(self) -> None:
        """Turns the rows collected so far into a segment of arrays."""
        if self._rows:
            values = zip(*self._rows, strict=True)
            named = zip(COLUMNS.items(), values, strict=True)
            arrays = {name: np.array(value, dtype=dtype) for (name, (dtype, _)), value in named}
            self._segments.append((self._size - len(self._rows), arrays))
            self._rows = []
        if self._edges:
            self.depend(*np.array(self._edges, dtype=np.int64).T)
            self._edges = []

    def _column(self, name: str) -> Array:
        """One column of the whole program; a view of a single value when all entries are equal."""
        dtype, default = COLUMNS[name]
        column = np.full(self._size, default, dtype=dtype)
        for (first, given), (stop, _) in pairwise((*self._segments, (self._size, {}))):
            if name in given:
                column[first:stop] = given[name]
        return np.broadcast_to(column[0], column.shape) if self._size and _constant(column) else column

    def _dependencies(self) -> tuple[Array, Array]:
        """CSR of the `after` edges."""
        if not self._heads:
            return np.zeros(self._size + 1, dtype=np.int64), np.zeros(0, dtype=np.int64)
        heads, tails = np.concatenate(self._heads), np.concatenate(self._tails)
        bad = (tails < 0) | (tails >= self._size) | (heads < 0) | (heads >= self._size)
        if bad.any():
            i = int(np.flatnonzero(bad)[0])
            raise BadInput(f"operation {heads[i]} waits for {tails[i]}, but operations are 0 .. {self._size - 1}")
        order = np.argsort(heads, kind="stable")
        counts = np.bincount(heads, minlength=self._size)
        return np.concatenate(([0], np.cumsum(counts))), tails[order]


def _constant(values: Array) -> bool:
    """Whether all entries are the same (NaN equal to NaN)."""
    first = values[:1]
    same = values == first
    return bool(same.all() or (np.isnan(first).all() and np.isnan(values).all()))
