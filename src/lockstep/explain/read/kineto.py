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
from typing import Any

import numpy as np

from lockstep.base.documents.files import File
from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass, field
from lockstep.base.types.arrays import Array, Floats, Ints
from lockstep.base.types.plain import Json
from lockstep.explain.classes import (
    CLASSES,
    COMMUNICATION,
    FUSED_ATTENTION,
    SOFTMAX,
    UNFUSED_PRODUCTS,
    class_of,
    op_of,
)
from lockstep.explain.read import TRACE, Kind, register
from lockstep.explain.read.file import Head, stream
from lockstep.explain.read.json_stream import members
from lockstep.explain.read.kineto_host import RECORD, gloo_B, host_spans, numbers, places
from lockstep.explain.read.products import Shape, kernel_rates, shape_of
from lockstep.explain.roles import by_place
from lockstep.explain.trace import Mark, RankTrace, Spans, order_of, unclassified

DEVICE = frozenset(("kernel", "gpu_memcpy", "gpu_memset", "Kernel", "Memcpy", "Memset"))
CALLS = frozenset(("cuda_runtime", "cuda_driver", "hip_runtime", "Runtime", "xpu_runtime", "privateuse1_runtime"))
WHOLE = ("name", "stream", "group", "op", "peer")
HOST_COLUMNS = ("ts", "dur", "name", "thread")
ELEMENT_B = {
    "Double": 8, "Long": 8, "Float": 4, "Int": 4, "Half": 2, "BFloat16": 2, "Short": 2, "Byte": 1, "Char": 1, "Bool": 1,
}  # fmt: skip
"""Bytes of an element by its type as c10d writes it; eight-bit floats have names of their own and take 1."""
LATEST_S = 1e7
"""No time of a trace lies further from its zero, a hundred days: it is damaged."""
MOST_RANKS = 10_000_000
MOST_DEVICES = 4096
"""Of one process."""


@dataclass(slots=True)
class Columns:
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
    exchanged_B: dict[int, float] = field(default_factory=dict)
    """Bytes of gloo's exchanges, by the place of their annotation in `marks`."""
    exchanges: dict[int, int] = field(default_factory=dict)
    """Numbers of their records, likewise."""
    pid: int | None = None
    threads: dict[str, int] = field(default_factory=dict)
    records: dict[int, tuple[int, int, float, int]] = field(default_factory=dict)
    shapes: dict[Shape, int] = field(default_factory=dict)
    products: dict[str, array[Any]] = field(default_factory=lambda: {"external": array("q"), "shape": array("i")})
    rates: dict[int, tuple[float, tuple[int, ...] | None]] = field(default_factory=dict)
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


def read_kineto(path: File) -> RankTrace:
    """The trace of one rank. Raises BadInput, with the place, for a file that is damaged or holds no operations."""
    kept, head, count = Columns(), Json(), 0
    with stream(path) as file:
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
        return by_place(_trace(str(path), kept, head))
    except BadInput:
        raise
    except (TypeError, ValueError, AttributeError, OverflowError, KeyError) as error:
        raise BadInput(f"the head of the trace is damaged: {error}", str(path)) from None


def _keep(kept: Columns, event: Json) -> None:
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
        if "Input Dims" in args and external and (shape := shape_of(name, args)) is not None:
            kept.products["external"].append(external)
            kept.products["shape"].append(kept.shapes.setdefault(shape, len(kept.shapes)))
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
            if name.startswith("gloo:"):
                _keep_exchange(kept, event, event.get("args") or {})
            kept.marks.append((name, *_span(event), _thread(kept, event)))


def _keep_exchange(kept: Columns, event: Json, args: Json) -> None:
    """Keeps the size of an exchange of gloo, where shapes were recorded, and the number of its record."""
    if size_B := gloo_B(str(event["name"]), args):
        kept.exchanged_B[len(kept.marks)] = size_B
    if record := int(args.get("Record function id") or 0):
        kept.exchanges[len(kept.marks)] = record


def _span(event: Json) -> tuple[float, float]:
    """(microseconds, microseconds long) of an event."""
    ts, dur = float(event["ts"]), float(event.get("dur") or 0.0)
    if not (math.isfinite(ts) and math.isfinite(dur)):
        raise BadInput("its time is not a number")
    if dur < 0:
        raise BadInput(f"it takes {dur:g} microseconds; a duration is 0 or more")
    return ts, dur


def _thread(kept: Columns, event: Json) -> int:
    if kept.pid is None and isinstance(pid := event.get("pid"), int):
        kept.pid = pid
    return kept.threads.setdefault(f"{event.get('pid')}/{event.get('tid')}", len(kept.threads))


def _keep_device(kept: Columns, event: Json) -> None:
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


def _keep_call(kept: Columns, event: Json) -> None:
    args, name = event.get("args") or {}, str(event["name"])
    ts, dur = _span(event)
    if "Synchronize" in name:
        kept.waits["ts"].append(ts)
        kept.waits["dur"].append(dur)
    elif correlation := int(args.get("correlation") or 0):
        for key, value in zip(kept.calls, (correlation, ts, int(args.get("External id") or 0)), strict=True):
            kept.calls[key].append(value)


def _trace(path: str, kept: Columns, head: Json) -> RankTrace:
    """The columns as a trace."""
    shared = head.get("distributedInfo") or {}
    for group in shared.get("pg_config") or ():
        if isinstance(group, dict) and isinstance(ranks := group.get("ranks"), list):
            kept.groups[str(group.get("pg_name"))] = tuple(int(rank) for rank in ranks)
            if (title := group.get("pg_desc")) and str(title) != "undefined":
                kept.titles.setdefault(str(group.get("pg_name")), str(title))
    on_host = not len(kept.device["ts"])
    if on_host and not any(name.startswith("gloo:") for name, *_ in kept.marks) and not len(kept.ops["name"]):
        raise BadInput("holds neither kernels nor operators: the use of time cannot be determined", path)
    zero_us = _zero_us(kept)
    spans = host_spans(kept, zero_us) if on_host else _device_spans(kept, zero_us)
    marks = tuple(
        sorted(
            (Mark(n, (t - zero_us) / 1e6, (t - zero_us + d) / 1e6, thread) for n, t, d, thread in kept.marks),
            key=lambda mark: (mark.start_s, -mark.end_s, mark.name),
        )
    )
    starts = (numbers(kept.waits["ts"]) - zero_us) / 1e6
    names, devices = tuple(kept.names), head.get("deviceProperties") or [{}]
    order = np.argsort(starts, kind="stable")
    ends = starts + numbers(kept.waits["dur"]) / 1e6
    latest_s = max([float(spans.end_s.max()), *(mark.end_s for mark in marks)]) if len(spans) else 0.0
    if max(latest_s, -float(spans.start_s[0]) if len(spans) else 0.0) > LATEST_S:
        raise BadInput("the times of its events lie too far apart", path)
    rank, world = (_count(shared, name) for name in ("rank", "world_size"))
    if world == 0 or (rank is not None and world is not None and rank >= world):
        raise BadInput(f"its rank is {rank}, of a run with {world} ranks", path)
    return RankTrace(
        path=path,
        rank=rank,
        world=world,
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
        rates={names[of]: rate for of, rate in kept.rates.items()},
        on_host=on_host,
        pid=kept.pid,
        recorded={record: (kept.marks[at][1] - zero_us) / 1e6 for at, record in kept.exchanges.items()},
    )


def _count(shared: Json, name: str) -> int | None:
    """A whole number of the head, None where it is not there."""
    value = shared.get(name)
    if value is None:
        return None
    found = int(value)
    if isinstance(value, bool) or found != float(value) or not 0 <= found <= MOST_RANKS:
        raise ValueError(f"{name} is {str(value)[:40]}")
    return found


def _zero_us(kept: Columns) -> float:
    """The first moment of the trace in its own microseconds, whole so that nothing is lost by subtracting it."""
    times = [mark[1] for mark in kept.marks]
    for column in (kept.device["ts"], kept.calls["ts"], *([kept.on_host["ts"]] if kept.on_host is not None else ())):
        if len(column):
            times.append(float(np.frombuffer(column).min()))
    return float(math.floor(min(times)))


def _device_spans(kept: Columns, zero_us: float) -> Spans:
    """Operations of the device that did most, with their launches, groups and classes.

    Columns are let go as soon as they are used: of a long trace they are most of what is held.
    """
    columns = {key: numbers(kept.device.pop(key)) for key in list(kept.device)}
    if columns["gpu"].max() >= MOST_DEVICES:
        raise ValueError(f"a kernel ran on device {columns['gpu'].max()}")
    device = np.maximum(columns.pop("gpu"), 0)
    of_busiest = device == np.argmax(np.bincount(device, columns["dur"]))
    if not of_busiest.all():
        columns = {key: columns.pop(key)[of_busiest] for key in list(columns)}
    called, external = _launches(kept, columns.pop("correlation"), columns.pop("external"))
    _fill_records(kept, columns, external)
    kinds = _kinds(kept, columns["name"], external)
    _rate(kept, columns, external, kinds)
    del external, device, of_busiest
    start = (columns.pop("ts") - zero_us) / 1e6
    end = start + columns.pop("dur") / 1e6
    order = order_of(start, end, columns["stream"], columns["name"])
    called -= zero_us
    called /= 1e6
    whole = {key: columns.pop(key)[order].astype(np.int64) for key in WHOLE}
    return Spans(
        start_s=start[order], end_s=end[order], kind=kinds[order], called_s=called[order],
        size_B=columns["size"][order], microbatch=np.full(len(start), -1), **whole,
    )  # fmt: skip


def _launches(kept: Columns, correlation: Ints, external: Ints) -> tuple[Floats, Ints]:
    """(microseconds of the launch of every operation, NaN where it is not known; number of its operator)."""
    calls = {key: numbers(kept.calls.pop(key)) for key in list(kept.calls)}
    place = places(calls["correlation"], correlation)
    known = place >= 0
    called = np.full(len(place), np.nan)
    called[known] = calls["ts"][place[known]]
    lost = known & (external == 0)
    external[lost] = calls["external"][place[lost]]
    return called, external


def _rate(kept: Columns, columns: dict[str, Array], external: Ints, kinds: Ints) -> None:
    """Keeps the rates of kernels that multiply, where shapes were recorded; of an operator's the longest counts."""
    place = places(numbers(kept.products["external"]), external)
    chosen = np.flatnonzero((place >= 0) & (kinds == CLASSES.index("matmul")))
    chosen = chosen[np.lexsort((-columns["dur"][chosen], external[chosen]))]
    chosen = chosen[np.unique(external[chosen], return_index=True)[1]]
    if len(chosen):
        shape = numbers(kept.products["shape"])[place[chosen]]
        kept.rates = kernel_rates(tuple(kept.shapes), shape, columns["name"][chosen], columns["dur"][chosen] / 1e6)


def _fill_records(kept: Columns, columns: dict[str, Array], external: Ints) -> None:
    """Group, collective and size of kernels that do not say them, from the record of their operator."""
    names = list(kept.names)
    for i in np.flatnonzero((columns["group"] < 0) & (external > 0)).tolist():
        if (record := kept.records.get(int(external[i]))) and class_of(names[columns["name"][i]]) == COMMUNICATION:
            group, op, size_B, peer = record
            columns["group"][i], columns["size"][i], columns["peer"][i] = group, size_B, peer
            columns["op"][i] = op if op >= 0 else columns["op"][i]


def _kinds(kept: Columns, name: Ints, external: Ints) -> Ints:
    """Class of every operation."""
    names = list(kept.names)
    place = places(numbers(kept.ops.pop("external")), external)
    operators = numbers(kept.ops.pop("name"))
    operator = np.where(place >= 0, operators[place] if len(operators) else -1, -1)
    del place, operators
    pairs, inverse = np.unique(name.astype(np.int64) * (len(names) + 1) + operator + 1, return_inverse=True)
    ran = [names[i] for i in np.unique(name).tolist()]
    unfused = any(SOFTMAX.search(one) for one in ran) and not any(FUSED_ATTENTION.search(one) for one in ran)
    found = []
    for of, by in (divmod(pair, len(names) + 1) for pair in pairs.tolist()):
        caller = names[by - 1] if by else ""
        kind = class_of(names[of], caller)
        if unfused and CLASSES[kind] == "matmul" and UNFUSED_PRODUCTS.search(caller):
            kind = CLASSES.index("attention")
        found.append(kind)
    return np.array(found, dtype=np.int64)[inverse]


def _recognise(begun: Head) -> bool:
    return b'"traceEvents"' in begun.data and b'"lockstep-timeline' not in begun.data


KIND = register(Kind("kineto", "a trace of PyTorch's profiler", TRACE, _recognise, read_kineto))
