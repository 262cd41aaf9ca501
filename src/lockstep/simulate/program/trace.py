"""Chrome / Perfetto traces of a timeline: written as `.json.gz`, read back to the same timeline.

One process per rank, one thread per lane, named `rank 3 / comm`. A span is a complete event (`ph: X`) with its bytes,
chunk, collective and algorithm as args; a message is a flow arrow from its send to its receive. The args also carry the
exact seconds and every column of the program, so that `read_trace(write_trace(timeline))` loses nothing. Traces of
other tools are read as computations with labels; nested slices of a track become lanes of their own (`track`,
`track/1`).

Source: Trace Event Format, Google (2016); the Perfetto UI and chrome://tracing open it.
"""

from __future__ import annotations

import gzip
import itertools
import json
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from lockstep.base.documents.files import open_file, replacing
from lockstep.base.errors import BadInput
from lockstep.base.types.plain import Json
from lockstep.base.units import format_size
from lockstep.simulate.program.builder import ProgramBuilder
from lockstep.simulate.program.program import COLUMNS, Kind, Program
from lockstep.simulate.program.timeline import Timeline

TEXT_COLUMNS = ("label", "buffer", "source", "op", "algorithm")
FORMAT = "lockstep-timeline-1"
CHANGING = "activations"
"""The category of memory that operations take and free."""
INSIDE = "operation"
"""The category of spans inside of those of operations of the program."""
MOST_B = 256 << 20
"""Bytes of a trace that is read: a million events, and about ten times as much memory while it is."""


class Slice(NamedTuple):
    """A part of an operation of the program, and what the trace says of it."""

    name: str
    start_s: float
    end_s: float
    args: Json


Inside = Mapping[int, Sequence[Slice]]
"""Parts by the place of their operation in the program."""
NONE: Inside = MappingProxyType({})


def write_trace(timeline: Timeline, path: str | Path, beside: Timeline | None = None, inside: Inside = NONE) -> None:
    """Writes the trace; gzip when the name ends in .gz. The same timeline gives the same bytes.

    `beside`, such as the prediction of a measured timeline, becomes further processes below, named by its source.
    Parts of operations, `inside`, lie in the spans of these. `read_trace` leaves both out.
    """
    program = timeline.program
    head = {"format": FORMAT, "ranks": program.ranks, "streams": list(program.streams), "source": timeline.source}
    if timeline.held_B:
        head["held_B"] = {name: list(held) for name, held in timeline.held_B.items()}
    if timeline.rank_names:
        head["rank_names"] = list(timeline.rank_names)
    with replacing(path) as raw:
        file = gzip.GzipFile("", "wb", mtime=0, fileobj=raw) if str(path).endswith(".gz") else raw
        file.write(('{"displayTimeUnit":"ms","otherData":' + json.dumps(head) + ',"traceEvents":[\n').encode())
        shadow = () if beside is None else _shadow(beside, program)
        for i, event in enumerate(itertools.chain(trace_events(timeline, inside), shadow)):
            file.write((",\n" if i else "").encode() + json.dumps(event, separators=(",", ":")).encode())
        file.write(b"\n]}\n")
        if file is not raw:
            file.close()


def trace_events(timeline: Timeline, inside: Inside = NONE) -> Iterator[Json]:
    """Events of the trace: names of tracks, then a span per operation with its parts and the flow ends of messages."""
    program = timeline.program
    called = timeline.rank_names or [f"rank {rank}" for rank in range(program.ranks)]
    for rank in sorted({rank for rank, _ in timeline.lanes}):
        yield {"ph": "M", "name": "process_name", "pid": rank, "args": {"name": called[rank]}}
        yield {"ph": "M", "name": "process_sort_index", "pid": rank, "args": {"sort_index": rank}}
    for rank, stream in timeline.lanes:
        tid = program.streams.index(stream)
        name = f"{called[rank]} / {stream}"
        yield {"ph": "M", "name": "thread_name", "pid": rank, "tid": tid, "args": {"name": name}}
        yield {"ph": "M", "name": "thread_sort_index", "pid": rank, "tid": tid, "args": {"sort_index": tid}}
    yield from _memory(timeline)
    columns = {name: program.columns[name].tolist() for name in COLUMNS}
    start, end = timeline.start_s.tolist(), timeline.end_s.tolist()
    for i in range(len(program)):
        kind, match = Kind(columns["kind"][i]), int(program.match[i])
        track = {"pid": columns["rank"][i], "tid": columns["stream"][i], "ts": start[i] * 1e6}
        args = _args(program, columns, i) | {"start_s": start[i], "end_s": end[i]}
        peer = called[columns["peer"][i]] if timeline.rank_names else str(columns["peer"][i])
        yield {"ph": "X", "name": _title(args, kind, match, peer), "cat": kind.name.lower(), **track,
               "dur": (end[i] - start[i]) * 1e6, "args": args}  # fmt: skip
        for one in inside.get(i, ()):
            span = track | {"ts": one.start_s * 1e6, "dur": (one.end_s - one.start_s) * 1e6}
            yield {"ph": "X", "name": one.name, "cat": INSIDE, **span, "args": one.args}
        if kind == Kind.SEND:
            yield {"ph": "s", "name": "message", "cat": "message", "id": i, **track}
        elif kind == Kind.RECV:
            yield {"ph": "f", "name": "message", "cat": "message", "id": match, "bp": "e", **track}


def _memory(timeline: Timeline) -> Iterator[Json]:
    """A counter of bytes by category of every rank that is known to hold something all the time."""
    if not timeline.held_B:
        return
    for rank in range(timeline.program.ranks):
        held = {name: ranks[rank] for name, ranks in timeline.held_B.items()}
        if not any(held.values()):
            continue
        times_s, used_B = timeline.memory_B(rank)
        for at_s, size_B in zip((0.0, *times_s.tolist()), (sum(held.values()), *used_B.tolist()), strict=True):
            args = held | {CHANGING: max(0.0, size_B - sum(held.values()))}
            yield {"ph": "C", "name": "memory (bytes)", "pid": rank, "ts": at_s * 1e6, "args": args}


def _shadow(beside: Timeline, program: Program) -> Iterator[Json]:
    """Events of another timeline, as processes and messages numbered after those of `program`."""
    for event in trace_events(beside):
        event["pid"] += program.ranks
        if event["name"] in ("process_name", "thread_name"):
            event["args"]["name"] = f"{beside.source} {event['args']['name']}"
        elif event["name"] == "process_sort_index":
            event["args"]["sort_index"] += program.ranks
        if "id" in event:
            event["id"] += len(program)
        yield event


def _args(program: Program, columns: Json, i: int) -> Json:
    """What the trace tells about operation i: every column that differs from its default, text as text."""
    args: Json = {"id": i}
    for name, (_, default) in COLUMNS.items():
        value = columns[name][i]
        if name in ("kind", "rank", "stream") or value == default or value != value:
            continue
        args[name] = program.name(value) if name in TEXT_COLUMNS else value
    after = program.after[program.after_start[i] : program.after_start[i + 1]].tolist()
    return args | ({"after": after} if after else {})


def _title(args: Json, kind: Kind, match: int, peer: str) -> str:
    name = args.get("label") or args.get("op") or kind.name.lower()
    arrow = {Kind.SEND: " to ", Kind.RECV: " from "}.get(kind)
    return f"{name}{arrow}{peer}" if arrow and match >= 0 else str(name)


def read_trace(path: str | Path) -> Timeline:
    """The timeline in a trace file of Lockstep or, as labelled computations, of another tool."""
    try:
        data = json.loads(_content(path))
    except BadInput:
        raise
    except (OSError, EOFError, ValueError, RecursionError, zlib.error) as error:
        raise BadInput(f"not a trace: {error}; give a Chrome trace (.json or .json.gz)", str(path)) from None
    events = data.get("traceEvents") if isinstance(data, dict) else data
    if not isinstance(events, list) or not all(isinstance(event, dict) for event in events):
        raise BadInput("not a trace: no list of traceEvents", str(path))
    spans = [event for event in events if event.get("ph") == "X"]
    head = data.get("otherData", {}) if isinstance(data, dict) else {}
    try:
        if isinstance(head, dict) and head.get("format") == FORMAT:
            return _own(head, spans)
        return _foreign(events, spans)
    except BadInput as error:
        raise BadInput(error.message, str(path)) from None
    except (KeyError, TypeError, AttributeError, IndexError, OverflowError, ValueError) as error:
        raise BadInput(f"the trace is damaged: {type(error).__name__} {error}", str(path)) from None


def _content(path: str | Path) -> bytes:
    """The bytes of the trace, unpacked."""
    with open_file(path) as file:
        packed = file.peek(2)[:2] == b"\x1f\x8b"
        text = (gzip.GzipFile(fileobj=file) if packed else file).read(MOST_B + 1)
    if len(text) > MOST_B:
        raise BadInput(f"is larger than the {format_size(MOST_B)} allowed for an unpacked trace", str(path))
    return text


def _own(head: Json, spans: list[Json]) -> Timeline:
    """Timeline of a trace that `write_trace` wrote."""
    ours = (span for span in spans if int(span["pid"]) < int(head["ranks"]) and span["cat"] != INSIDE)
    spans = sorted(ours, key=lambda span: int(span["args"]["id"]))
    args = [span["args"] for span in spans]
    builder = ProgramBuilder(int(head["ranks"]), head["streams"])
    columns: Json = {
        "kind": [Kind[span["cat"].upper()] for span in spans],
        "rank": [span["pid"] for span in spans],
        "stream": [span["tid"] for span in spans],
    }
    for name, (_, default) in COLUMNS.items():
        if name in TEXT_COLUMNS:
            columns[name] = [builder.name(arg.get(name, "")) for arg in args]
        elif name not in columns:
            columns[name] = [arg.get(name, default) for arg in args]
    if spans:
        builder.extend(**columns)
    for i, arg in enumerate(args):
        for other in arg.get("after", ()):
            builder.depend(i, other)
    start, end = [float(arg["start_s"]) for arg in args], [float(arg["end_s"]) for arg in args]
    held_B = {str(name): tuple(map(float, held)) for name, held in head.get("held_B", {}).items()}
    source = str(head.get("source", "measured"))
    names = tuple(map(str, head.get("rank_names", ())))
    return Timeline(builder.build(), np.array(start), np.array(end), source=source, held_B=held_B, rank_names=names)


def _foreign(events: list[Json], spans: list[Json]) -> Timeline:
    """Timeline of another tool's trace: processes become ranks in order of their ids, tracks become streams."""
    spans = [span for span in spans if math.isfinite(float(span["ts"])) and float(span.get("dur", 0)) >= 0]
    if not spans:
        raise BadInput("the trace has no complete events (ph = X), so there is nothing to show")
    titles = {
        (str(e.get("pid")), str(e.get("tid"))): str(e["args"]["name"]) for e in events if e.get("name") == "thread_name"
    }
    processes = sorted({str(span.get("pid", 0)) for span in spans}, key=lambda name: (len(name), name))
    zero = min(float(span["ts"]) for span in spans)
    spans.sort(key=lambda s: (str(s.get("pid", 0)), str(s.get("tid", 0)), float(s["ts"]), -float(s.get("dur", 0))))
    rows: list[tuple[int, str, str, float, float]] = []
    open_until: list[float] = []
    track = None
    for span in spans:
        key = str(span.get("pid", 0)), str(span.get("tid", 0))
        if key != track:
            track, open_until = key, []
        start = (float(span["ts"]) - zero) / 1e6
        end = start + float(span.get("dur", 0)) / 1e6
        depth = next((d for d, until in enumerate(open_until) if until <= start * (1 + 1e-12)), len(open_until))
        open_until[depth:] = [end]
        stream = titles.get(key, key[1]) + (f"/{depth}" if depth else "")
        rows.append((processes.index(key[0]), stream, str(span.get("name", "")), start, end))
    streams = tuple(dict.fromkeys(row[1] for row in rows))
    builder = ProgramBuilder(len(processes), streams)
    for rank, stream, name, start, end in rows:
        builder.compute(rank, end - start, label=name, stream=stream)
    start_s, end_s = (np.array([row[i] for row in rows]) for i in (3, 4))
    return Timeline(builder.build(), start_s, end_s, source="measured")
