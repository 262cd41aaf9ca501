"""A trace of PyTorch's profiler (Kineto): one rank, read in one pass with memory that its kept columns alone take.

Kept are operations of the device (`kernel`, `gpu_memcpy`, `gpu_memset`), the calls that launched them, joined by
`correlation`, the operators behind those, joined by `External id`, and annotations of the host. Times are microseconds
after `baseTimeNanoseconds`, or absolute where a file does not have it. A collective's group and size are in the
kernel's own arguments, else in the `record_param_comms` of the same External id; kernels whose host operation lies
before the window have neither. A run on CPUs has no kernels: there `gloo:` annotations are its communication, and the
outermost operators its computations.

Source: PyTorch Kineto, libkineto/src/output_json.cpp and torch/csrc/distributed/c10d/ParamCommsUtils.hpp (2025).
"""

from __future__ import annotations

import math
import re
from array import array
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from lockstep.diagnosis.classes import (
    CLASSES,
    COMMUNICATION,
    FUSED_ATTENTION,
    SOFTMAX,
    UNFUSED_PRODUCTS,
    class_of,
    op_of,
)
from lockstep.diagnosis.read import TRACE, Kind, register
from lockstep.diagnosis.read.file import Head, stream
from lockstep.diagnosis.read.json_stream import members
from lockstep.diagnosis.trace import Mark, RankTrace, Spans, sorted_spans, unclassified
from lockstep.errors import BadInput
from lockstep.types.arrays import Array, Ints
from lockstep.types.plain import Json

DEVICE = frozenset(("kernel", "gpu_memcpy", "gpu_memset", "Kernel", "Memcpy", "Memset"))
CALLS = frozenset(("cuda_runtime", "cuda_driver", "hip_runtime", "Runtime", "xpu_runtime", "privateuse1_runtime"))
HOST_COLUMNS = ("ts", "dur", "name", "thread")
ELEMENT_B = {
    "Double": 8, "Long": 8, "Float": 4, "Int": 4, "Half": 2, "BFloat16": 2, "Short": 2, "Byte": 1, "Char": 1, "Bool": 1,
}  # fmt: skip
"""Bytes of an element by its type as c10d writes it; eight-bit floats have names of their own and take 1."""
RECORD = "record_param_comms"
OWN_EXCHANGE = re.compile(r"^lockstep:[^:]+:[^:]+:\d+:\d+$")
PAIR = re.compile(r"(\d+)-(\d+)$")
LATEST_S = 1e12
"""No time of a trace lies further from its zero: it is damaged."""


@dataclass(slots=True)
class _Columns:
    """What is kept while the file is read."""

    names: dict[str, int] = field(default_factory=dict)
    device: dict[str, array[Any]] = field(
        default_factory=lambda: {
            key: array(code)
            for key, code in zip(
                ("ts", "dur", "name", "stream", "correlation", "external", "gpu", "group", "op", "size", "peer"),
                "ddiqqqiiidi", strict=True,
            )
        }
    )  # fmt: skip
    calls: dict[str, array[Any]] = field(
        default_factory=lambda: {"correlation": array("q"), "ts": array("d"), "external": array("q")}
    )
    waits: dict[str, array[Any]] = field(default_factory=lambda: {"ts": array("d"), "dur": array("d")})
    ops: dict[str, array[Any]] = field(default_factory=lambda: {"external": array("q"), "name": array("i")})
    on_host: dict[str, array[Any]] | None = field(
        default_factory=lambda: {key: array(code) for key, code in zip(HOST_COLUMNS, "ddii", strict=True)}
    )
    """Operators as the operations of a run on CPUs; None once a kernel was seen."""
    marks: list[tuple[str, float, float, int]] = field(default_factory=list)
    threads: dict[str, int] = field(default_factory=dict)
    records: dict[int, tuple[int, int, float, int]] = field(default_factory=dict)
    groups: dict[str, tuple[int, ...]] = field(default_factory=dict)
    titles: dict[str, str] = field(default_factory=dict)
    graphs: bool = False

    def index(self, name: str) -> int:
        """Number of a name."""
        return self.names.setdefault(name, len(self.names))

    def comms(self, args: Json, name: str) -> tuple[int, int, float, int]:
        """(group, collective, bytes, peer) as the arguments of a collective say."""
        op = op_of(str(args.get("Collective name") or "")) or op_of(name)
        elements = max(int(args.get("In msg nelems") or 0), int(args.get("Out msg nelems") or 0))
        size_B = float(elements * ELEMENT_B.get(str(args.get("dtype")), 1))
        peer = args.get("Dst Rank" if op == "send" else "Src Rank") if op in ("send", "recv") else None
        group = -1
        if (called := args.get("Process Group Name")) is not None:
            group = self.index(str(called))
            if (title := args.get("Process Group Description")) and str(title) != "undefined":
                self.titles.setdefault(str(called), str(title))
            if str(called) not in self.groups:
                listed = str(args.get("Process Group Ranks") or "")
                self.groups[str(called)] = () if "..." in listed else tuple(map(int, re.findall(r"\d+", listed)))
        return group, self.index(op) if op else -1, size_B, -1 if peer is None else int(peer)


def read_kineto(path: str | Path) -> RankTrace:
    """The trace of one rank. Raises BadInput, with the place, for a file that is damaged or holds no operations."""
    kept, head, count = _Columns(), Json(), 0
    with stream(Path(path)) as file:
        for key, value in members(path, file, "traceEvents"):
            if key != "traceEvents":
                head[key] = value
                continue
            count += 1
            if not isinstance(value, dict):
                raise BadInput(f"event {count:,} is not an object", str(path))
            try:
                _keep(kept, value)
            except BadInput as error:
                raise BadInput(f"event {count:,} ({str(value.get('name'))!r}): {error.message}", str(path)) from None
            except KeyError as error:
                raise BadInput(f"event {count:,} has no {error}", str(path)) from None
            except (TypeError, ValueError, AttributeError, OverflowError) as error:
                raise BadInput(f"event {count:,} is damaged: {error}", str(path)) from None
    if not count:
        raise BadInput("holds no traceEvents: this is not a trace of PyTorch's profiler", str(path))
    try:
        return _trace(str(path), kept, head)
    except (TypeError, ValueError, AttributeError, OverflowError, KeyError) as error:
        raise BadInput(f"the head of the trace is damaged: {error}", str(path)) from None


def _keep(kept: _Columns, event: Json) -> None:
    """Keeps what is needed of an event."""
    if event.get("ph") != "X" or (category := event.get("cat")) is None:
        return
    if category in DEVICE:
        _keep_device(kept, event)
    elif category in CALLS:
        _keep_call(kept, event)
    elif category == "cpu_op" or category == "Operator":
        args = event.get("args") or {}
        external, name = int(args.get("External id") or 0), str(event["name"])
        if name == RECORD and "Collective name" in args:
            kept.records[external] = kept.comms(args, name)
        kept.ops["external"].append(external)
        kept.ops["name"].append(kept.index(name))
        if kept.on_host is not None:
            for column, value in zip(
                kept.on_host.values(), (*_span(event), kept.index(name), _thread(kept, event)), strict=True
            ):
                column.append(value)
    elif category == "user_annotation":
        name = str(event["name"])
        if not name.startswith(("nccl:", "## ")):
            kept.marks.append((name, *_span(event), _thread(kept, event)))


def _span(event: Json) -> tuple[float, float]:
    """(microseconds, microseconds long) of an event."""
    ts, dur = float(event["ts"]), float(event.get("dur") or 0.0)
    if not (math.isfinite(ts) and math.isfinite(dur)):
        raise BadInput("its time is not a number")
    if dur < 0:
        raise BadInput(f"it takes {dur:g} microseconds; a duration is 0 or more")
    return ts, dur


def _thread(kept: _Columns, event: Json) -> int:
    return kept.threads.setdefault(f"{event.get('pid')}/{event.get('tid')}", len(kept.threads))


def _keep_device(kept: _Columns, event: Json) -> None:
    args, name = event.get("args") or {}, str(event["name"])
    ts, dur = _span(event)
    kept.on_host = None
    comms = (-1, -1, 0.0, -1)
    if class_of(name) == COMMUNICATION:
        comms = kept.comms(args, name)
    elif isinstance(size := args.get("bytes"), int):
        comms = (-1, -1, float(size), -1)
    kept.graphs = kept.graphs or bool(args.get("graph node id"))
    values = (
        ts, dur, kept.index(name), int(args.get("stream") or 0), int(args.get("correlation") or 0),
        int(args.get("External id") or 0), int(args.get("device") or 0), *comms,
    )  # fmt: skip
    for column, value in zip(kept.device.values(), values, strict=True):
        column.append(value)


def _keep_call(kept: _Columns, event: Json) -> None:
    args, name = event.get("args") or {}, str(event["name"])
    ts, dur = _span(event)
    if "Synchronize" in name:
        kept.waits["ts"].append(ts)
        kept.waits["dur"].append(dur)
    elif correlation := int(args.get("correlation") or 0):
        for key, value in zip(kept.calls, (correlation, ts, int(args.get("External id") or 0)), strict=True):
            kept.calls[key].append(value)


def _trace(path: str, kept: _Columns, head: Json) -> RankTrace:
    """The columns as a trace."""
    shared = head.get("distributedInfo") or {}
    for group in shared.get("pg_config") or ():
        if isinstance(group, dict) and isinstance(ranks := group.get("ranks"), list):
            kept.groups[str(group.get("pg_name"))] = tuple(int(rank) for rank in ranks)
            if (title := group.get("pg_desc")) and str(title) != "undefined":
                kept.titles.setdefault(str(group.get("pg_name")), str(title))
    on_host = not len(kept.device["ts"])
    if on_host and not any(name.startswith("gloo:") for name, *_ in kept.marks) and not len(kept.ops["name"]):
        raise BadInput("holds neither kernels nor operators: there is nothing to tell where time went", path)
    zero_us = _zero_us(kept)
    spans = _host_spans(kept, zero_us) if on_host else _device_spans(kept, zero_us)
    marks = tuple(
        sorted(
            (Mark(n, (t - zero_us) / 1e6, (t - zero_us + d) / 1e6, thread) for n, t, d, thread in kept.marks),
            key=lambda mark: (mark.start_s, -mark.end_s, mark.name),
        )
    )
    starts = (_numbers(kept.waits["ts"]) - zero_us) / 1e6
    names, devices = tuple(kept.names), head.get("deviceProperties") or [{}]
    order = np.argsort(starts, kind="stable")
    ends = starts + _numbers(kept.waits["dur"]) / 1e6
    if len(spans) and max(abs(float(spans.start_s[0])), float(spans.end_s.max())) > LATEST_S:
        raise BadInput("the times of its events lie too far apart", path)
    return RankTrace(
        path=path,
        rank=None if shared.get("rank") is None else int(shared["rank"]),
        world=None if shared.get("world_size") is None else int(shared["world_size"]),
        device=str(devices[0].get("name") or ""),
        host=str(head.get("host_name") or ""),
        zero_ns=int(head.get("baseTimeNanoseconds") or 0) + round(zero_us * 1e3),
        names=names,
        spans=spans,
        marks=marks,
        waits=(starts[order], ends[order]),
        groups=kept.groups,
        titles=kept.titles,
        unclassified=unclassified(names, spans),
        graphs=kept.graphs,
        on_host=on_host,
    )


def _zero_us(kept: _Columns) -> float:
    """The first moment of the trace in its own microseconds, whole so that nothing is lost by subtracting it."""
    times = [mark[1] for mark in kept.marks]
    for column in (kept.device["ts"], kept.calls["ts"], *([kept.on_host["ts"]] if kept.on_host is not None else ())):
        if len(column):
            times.append(float(np.frombuffer(column).min()))
    return float(math.floor(min(times)))


def _numbers(column: array[Any]) -> Array:
    return np.frombuffer(column, dtype=column.typecode).copy() if len(column) else np.zeros(0, column.typecode)


def _device_spans(kept: _Columns, zero_us: float) -> Spans:
    """Operations of the device that did most, with their launches, groups and classes."""
    columns = {key: _numbers(column) for key, column in kept.device.items()}
    busiest = int(np.argmax(np.bincount(np.maximum(columns["gpu"], 0), columns["dur"])))
    columns = {key: column[np.maximum(columns["gpu"], 0) == busiest] for key, column in columns.items()}
    calls = {key: _numbers(column) for key, column in kept.calls.items()}
    place = _places(calls["correlation"], columns["correlation"])
    known = place >= 0
    called = np.full(len(place), np.nan)
    called[known] = calls["ts"][place[known]]
    external = columns["external"].astype(np.int64)
    external[known & (external == 0)] = calls["external"][place[known & (external == 0)]]
    _fill_records(kept, columns, external)
    start = (columns["ts"] - zero_us) / 1e6
    spans = Spans(
        start_s=start,
        end_s=start + columns["dur"] / 1e6,
        kind=_kinds(kept, columns["name"], external),
        name=columns["name"].astype(np.int64),
        stream=columns["stream"].astype(np.int64),
        called_s=(called - zero_us) / 1e6,
        group=columns["group"].astype(np.int64),
        op=columns["op"].astype(np.int64),
        size_B=columns["size"],
        peer=columns["peer"].astype(np.int64),
        microbatch=np.full(len(start), -1),
    )
    return sorted_spans(spans)


def _places(keys: Ints, wanted: Ints) -> Ints:
    """Where each wanted number is among `keys`, -1 where it is not; 0 stands for none."""
    if not len(keys):
        return np.full(len(wanted), -1)
    order = np.argsort(keys, kind="stable")
    at = np.minimum(np.searchsorted(keys[order], wanted), len(keys) - 1)
    found = order[at]
    return np.where((keys[found] == wanted) & (wanted != 0), found, -1)


def _fill_records(kept: _Columns, columns: dict[str, Array], external: Ints) -> None:
    """Group, collective and size of kernels that do not say them, from the record of their operator."""
    names = list(kept.names)
    for i in np.flatnonzero((columns["group"] < 0) & (external > 0)).tolist():
        if (record := kept.records.get(int(external[i]))) and class_of(names[columns["name"][i]]) == COMMUNICATION:
            group, op, size_B, peer = record
            columns["group"][i], columns["size"][i], columns["peer"][i] = group, size_B, peer
            columns["op"][i] = op if op >= 0 else columns["op"][i]


def _kinds(kept: _Columns, name: Ints, external: Ints) -> Ints:
    """Class of every operation."""
    names = list(kept.names)
    place = _places(_numbers(kept.ops["external"]), external)
    operator = np.where(place >= 0, _numbers(kept.ops["name"])[place] if len(kept.ops["name"]) else -1, -1)
    pairs, inverse = np.unique(np.stack((name.astype(np.int64), operator), axis=1), axis=0, return_inverse=True)
    ran = [names[i] for i in np.unique(name).tolist()]
    unfused = any(SOFTMAX.search(one) for one in ran) and not any(FUSED_ATTENTION.search(one) for one in ran)
    found = []
    for of, by in pairs.tolist():
        caller = names[by] if by >= 0 else ""
        kind = class_of(names[of], caller)
        if unfused and CLASSES[kind] == "matmul" and UNFUSED_PRODUCTS.search(caller):
            kind = CLASSES.index("attention")
        found.append(kind)
    return np.array(found, dtype=np.int64)[inverse.ravel()]


def _host_spans(kept: _Columns, zero_us: float) -> Spans:
    """Communication and outermost operators of a run on CPUs.

    Exchanges that the program annotates itself (`lockstep:GROUP:OPERATION:BYTES:NUMBER`) replace gloo's own records;
    the operators inside them are part of them.
    """
    own = [(*_named(name), ts, dur, thread) for name, ts, dur, thread in kept.marks if OWN_EXCHANGE.match(name)]
    rows: list[tuple[float, float, int, int, int, int, int, float, int]] = []
    for group, op, size_B, peer, ts, dur, thread in own:
        kept.titles.setdefault(group, "dp" if group == "all" else "pp" if group[0].isdigit() else group)
        name = kept.index(f"lockstep:{group}:{op}")
        index = kept.index(group), kept.index(op)
        rows.append((ts, ts + dur, COMMUNICATION, name, thread, *index, size_B, peer))
    for called, ts, dur, thread in kept.marks if not own else ():
        if called.startswith("gloo:"):
            index = -1, kept.index(op_of(called) or called)
            rows.append((ts, ts + dur, COMMUNICATION, kept.index(called), thread, *index, 0.0, -1))
    ops = {key: _numbers(column) for key, column in (kept.on_host or {}).items()}
    names, inside = list(kept.names), _inside(ops, own)
    for i in _outermost(ops).tolist():
        if (name := names[ops["name"][i]]) == RECORD or name.startswith(("c10d::", "gloo:")) or inside[i]:
            continue
        ts = float(ops["ts"][i])
        kind, at = class_of("", name), (int(ops["name"][i]), int(ops["thread"][i]))
        rows.append((ts, ts + float(ops["dur"][i]), kind, *at, -1, -1, 0.0, -1))
    start, end, kinds, named, threads, groups, of, size, peers = (np.array(x) for x in zip(*rows, strict=True))
    start, end = (start - zero_us) / 1e6, (end - zero_us) / 1e6
    none = np.full(len(rows), -1)
    return sorted_spans(Spans(start, end, kinds, named, threads, start.copy(), groups, of, size, peers, none))


def _named(name: str) -> tuple[str, str, float, int]:
    """(group, collective, bytes, peer) of an exchange that a program of Lockstep annotates."""
    _, group, op, size, _ = name.split(":")
    ends = PAIR.search(group) if op in ("send", "recv") else None
    return group, op, float(size), int(ends[1 + (op == "send")]) if ends else -1


def _inside(ops: dict[str, Array], own: list[tuple[str, str, float, int, float, float, int]]) -> Array:
    """Which operators lie inside an exchange on their thread."""
    found = np.zeros(len(ops["ts"]), dtype=bool)
    for thread in {row[6] for row in own}:
        spans = np.array(sorted((row[4], row[4] + row[5]) for row in own if row[6] == thread))
        at = np.searchsorted(spans[:, 0], ops["ts"], side="right") - 1
        found |= (ops["thread"] == thread) & (at >= 0) & (ops["ts"] < spans[np.maximum(at, 0), 1])
    return found


def _outermost(ops: dict[str, Array]) -> Ints:
    """Operators that no other operator of their thread contains."""
    order = np.lexsort((-ops["dur"], ops["ts"], ops["thread"]))
    kept, thread, until = [], -1, -math.inf
    for i in order.tolist():
        if ops["thread"][i] != thread:
            thread, until = int(ops["thread"][i]), -math.inf
        if ops["ts"][i] >= until:
            kept.append(i)
            until = float(ops["ts"][i] + ops["dur"][i])
    return np.array(kept, dtype=np.int64)


def _recognise(begun: Head) -> bool:
    return b'"traceEvents"' in begun.data and b'"lockstep-timeline' not in begun.data


KIND = register(Kind("kineto", "a trace of PyTorch's profiler", TRACE, _recognise, read_kineto))
