"""Exports of NVIDIA Nsight Systems (`nsys export --type sqlite`): operations of every device in the file.

    CUPTI_ACTIVITY_KIND_KERNEL, _MEMCPY, _MEMSET     what ran: start, end in ns, stream, correlationId, globalPid
    CUPTI_ACTIVITY_KIND_GRAPH_TRACE                  whole CUDA graphs, in place of their kernels unless nsys was told
                                                     --cuda-graph-trace=node: of no known class
    CUPTI_ACTIVITY_KIND_RUNTIME                      the call that launched it, joined by correlationId and process
    NVTX_EVENTS                                      ranges of the host; StringIds the names of all

Tables are created as they are needed and change by version, so the file is asked which it has. Where a value is
missing, some versions write NULL and some 0 or -1. A process's number is in the upper bits of its threads'
(`globalTid`); a file whose kernels have none is of one process. The file knows devices and no ranks: where it has
several, they are numbered in order of process and device.

Source: Nsight Systems user guide 2025.3, "SQLite schema reference".
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import numpy as np

from lockstep.base.documents.files import File, InMemory, open_file
from lockstep.base.errors import BadInput
from lockstep.base.types.arrays import Array, Floats, Ints
from lockstep.explain.classes import CLASSES, COMMUNICATION, class_of, op_of
from lockstep.explain.read import TRACE, Kind, register
from lockstep.explain.read.file import Head
from lockstep.explain.read.file import stream as stream_of
from lockstep.explain.trace import Mark, RankTrace, Spans, sorted_spans, unclassified

HEADER = b"SQLite format 3\0"
KERNEL, COPY, SET, GRAPH, CALL = (
    f"CUPTI_ACTIVITY_KIND_{one}" for one in ("KERNEL", "MEMCPY", "MEMSET", "GRAPH_TRACE", "RUNTIME")
)
CALLED = {COPY: "Memcpy", SET: "Memset", GRAPH: "CUDA graph"}
RANGES = "NVTX_EVENTS"
PROCESS = ~0xFFFFFF
"""Bits of a `globalTid` that are its process's."""
NS = 1e-9
MOST_RANGES = 1_000_000
MOST_NS = 10**16
"""Between two operations of a file: a hundred days."""


def read(path: File) -> tuple[RankTrace, ...]:
    """A trace per device. Raises BadInput for a file without kernels, of another program, or a damaged one."""
    with _opened(path) as base:
        tables = {name for (name,) in base.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not tables & {KERNEL, GRAPH} or "StringIds" not in tables:
            raise BadInput("is an SQLite file without kernels of Nsight Systems (nsys export --type sqlite)", str(path))
        strings = {number: str(text) for number, text in base.execute("SELECT id, value FROM StringIds")}
        numbered = all("globalPid" in _columns(base, table) for table in (KERNEL, GRAPH) if table in tables)
        process = PROCESS if numbered else 0
        rows = _operations(base, tables, strings, process)
        calls = _calls(base, tables, process)
        if not rows:
            raise BadInput("holds no kernels: was the device traced? (nsys profile --trace=cuda,nvtx)", str(path))
        marks = _marks(base, tables, strings, process)
        waits = _waits(base, tables, process)
        device = _device(base, tables)
    owners = sorted({(int(row[5]), int(row[6])) for row in rows})
    return tuple(
        _trace(path, number if len(owners) > 1 else None, device, [row for row in rows if (row[5], row[6]) == owner],
               calls, marks, waits)
        for number, owner in enumerate(owners)
    )  # fmt: skip


Row = tuple[int, int, int, str, int, int, int, float]
"""start, end, correlation, name, stream, process, device, bytes."""


@contextmanager
def _opened(path: File) -> Iterator[sqlite3.Connection]:
    """The file, to read only. What SQLite or a value of the wrong kind raises becomes BadInput."""
    open_file(path).close()
    base = None
    try:
        base = _connected(path)
        base.text_factory = lambda raw: raw.decode("utf-8", "replace")
        yield base
    except (sqlite3.Error, TypeError, ValueError, OverflowError) as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(f"is not an export of Nsight Systems: {str(error)[:120]}", str(path)) from None
    finally:
        if base is not None:
            base.close()


def _connected(path: File) -> sqlite3.Connection:
    if not isinstance(path, InMemory):
        return sqlite3.connect(f"file:{quote(str(Path(path).resolve()))}?mode=ro&immutable=1", uri=True)
    base = sqlite3.connect(":memory:")
    with stream_of(path) as file:
        base.deserialize(file.read())
    return base


def _columns(base: sqlite3.Connection, table: str) -> set[str]:
    return {row[1] for row in base.execute(f"PRAGMA table_info({table})")}


def _operations(base: sqlite3.Connection, tables: set[str], strings: dict[int, str], process: int) -> list[Row]:
    """Kernels, copies and fills of memory, and whole graphs."""
    rows: list[Row] = []
    for table, named in ((KERNEL, "shortName"), *((one, "") for one in CALLED)):
        if table not in tables:
            continue
        there = _columns(base, table)
        name = "demangledName" if named and "demangledName" in there else named or "NULL"
        size = "bytes" if "bytes" in there else "0"
        owner = "globalPid" if "globalPid" in there else "0"
        asked = f"SELECT start, end, correlationId, {name}, streamId, {owner}, deviceId, {size} FROM {table}"
        # CUPTI writes 0 for the times of a graph that it could not take.
        asked += " WHERE end > 0" if table == GRAPH else ""
        for start, end, correlation, title, stream, pid, device, size_B in base.execute(asked):
            called = strings.get(title, "") if named else CALLED[table]
            if int(end) < int(start):
                raise ValueError(f"an operation of {table} ends before it starts")
            if int(end) - (rows[0][0] if rows else int(start)) > MOST_NS or (
                rows and rows[0][0] - int(start) > MOST_NS
            ):
                raise ValueError(f"the times of operations of {table} lie too far apart")
            rows.append((int(start), int(end), int(correlation or 0), called, int(stream or 0), int(pid or 0) & process,
                         int(device or 0), float(size_B or 0.0)))  # fmt: skip
    return rows


def _calls(base: sqlite3.Connection, tables: set[str], process: int) -> dict[tuple[int, int], int]:
    """When the host began the call with a correlation, by process."""
    if CALL not in tables:
        return {}
    asked = f"SELECT start, correlationId, globalTid FROM {CALL} WHERE correlationId IS NOT NULL"
    return {(int(thread or 0) & process, int(number)): int(start) for start, number, thread in base.execute(asked)}


def _marks(
    base: sqlite3.Connection, tables: set[str], strings: dict[int, str], process: int
) -> list[tuple[int, str, int, int, int]]:
    """(process, name, start, end, thread) of ranges that have an end."""
    if RANGES not in tables:
        return []
    there = _columns(base, RANGES)
    title = "textId" if "textId" in there else "NULL"
    asked = f"SELECT globalTid, text, {title}, start, end FROM {RANGES} WHERE end >= start LIMIT {MOST_RANGES}"
    return [
        (int(thread or 0) & process, str(text or strings.get(number, "")), int(start), int(end), int(thread or 0))
        for thread, text, number, start, end in base.execute(asked)
    ]


def _waits(base: sqlite3.Connection, tables: set[str], process: int) -> list[tuple[int, int, int]]:
    """(process, start, end) of calls that wait for the device."""
    if CALL not in tables or "nameId" not in _columns(base, CALL):
        return []
    asked = (
        f"SELECT globalTid, start, end FROM {CALL} JOIN StringIds ON nameId = id WHERE value LIKE '%Synchronize%' "
        "OR value LIKE 'cudaMemcpy\\_v%' ESCAPE '\\'"
    )
    return [(int(thread or 0) & process, int(start), int(end)) for thread, start, end in base.execute(asked)]


def _device(base: sqlite3.Connection, tables: set[str]) -> str:
    if "TARGET_INFO_GPU" not in tables or "name" not in _columns(base, "TARGET_INFO_GPU"):
        return ""
    found = base.execute("SELECT name FROM TARGET_INFO_GPU LIMIT 1").fetchone()
    return str(found[0]) if found else ""


def _trace(
    path: File,
    rank: int | None,
    device: str,
    rows: list[Row],
    calls: dict[tuple[int, int], int],
    marks: list[tuple[int, str, int, int, int]],
    waits: list[tuple[int, int, int]],
) -> RankTrace:
    """The operations of one device."""
    process, zero = rows[0][5], min(row[0] for row in rows)
    names: dict[str, int] = {}
    for row in rows:
        names.setdefault(row[3], len(names))
    kinds = {name: CLASSES.index("copy") if name in ("Memcpy", "Memset") else class_of(name) for name in names}
    ops = {name: op_of(name) if kinds[name] == COMMUNICATION else "" for name in list(names)}
    for op in ops.values():
        names.setdefault(op, len(names))
    called = [calls.get((row[5], row[2])) for row in rows]
    none = np.full(len(rows), -1)
    spans = Spans(
        start_s=_seconds([row[0] for row in rows], zero),
        end_s=_seconds([row[1] for row in rows], zero),
        kind=np.array([kinds[row[3]] for row in rows]),
        name=np.array([names[row[3]] for row in rows]),
        stream=np.array([row[4] for row in rows]),
        called_s=np.array([np.nan if one is None else (one - zero) * NS for one in called]),
        group=none,
        op=np.array([names[ops[row[3]]] if ops[row[3]] else -1 for row in rows]),
        size_B=np.array([row[7] for row in rows]),
        peer=none.copy(),
        microbatch=none.copy(),
    )
    spans = sorted_spans(spans)
    waited = sorted((start, end) for owner, start, end in waits if owner == process)
    said = sorted(
        (Mark(name, (start - zero) * NS, (end - zero) * NS, thread) for owner, name, start, end, thread in marks
         if owner == process and name),
        key=lambda mark: (mark.start_s, -mark.end_s, mark.name),
    )  # fmt: skip
    return RankTrace(
        path=str(path), rank=rank, world=None, device=device, host="", zero_ns=zero, names=tuple(names), spans=spans,
        marks=tuple(said), unclassified=unclassified(tuple(names), spans),
        waits=(_seconds([one[0] for one in waited], zero), _seconds([one[1] for one in waited], zero)),
    )  # fmt: skip


def _seconds(times: list[int], zero: int) -> Floats:
    """Nanoseconds as seconds after zero; whole numbers are subtracted first, so that nothing is lost."""
    whole: Ints = np.array(times, dtype=np.int64)
    found: Array = (whole - zero) * NS
    return found


def _recognise(begun: Head) -> bool:
    return begun.data.startswith(HEADER)


KIND = register(Kind("nsys", "an SQLite export of Nsight Systems", TRACE, _recognise, read))
