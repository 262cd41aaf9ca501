"""`write_kineto`: a rank's trace as a file of PyTorch's profiler (Kineto), with launches, groups and an own clock.

What is written is what `read/kineto.py` reads: kernels with their stream, correlation and group, the calls that
launched them, the operators behind those, annotations of steps, and the rank in the head. Perfetto opens it.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from lockstep.base.documents.files import replacing
from lockstep.base.types.arrays import Floats
from lockstep.base.types.plain import Json
from lockstep.explain.classes import CLASSES
from lockstep.explain.trace import RankTrace

OPERATORS = {"matmul": "aten::mm", "attention": "aten::_flash_attention_forward", "elementwise": "aten::mul"}
CALLED_US = 3.0
ELEMENT_B = 4
PARTS_IN, PARTS_OUT = ("all-gather", "gather"), ("reduce-scatter", "scatter")
"""Collectives that take, or give, one rank's part of the whole."""


def kineto_events(trace: RankTrace, clock_s: float = 0.0, seen: float = 1.0, seed: int = 0) -> Iterator[Json]:
    """Events in the order of a profiler's file: operators, calls, kernels.

    `clock_s` is added to all times. `seen`: the share of kernels with launch and group, which profilers lose.
    """
    spans, pid = trace.spans, trace.rank or 0
    known = np.random.default_rng(seed).random(len(spans)) < seen
    ends_s = _ends_s(trace)
    for mark in trace.marks:
        yield _event("user_annotation", mark.name, (mark.start_s + clock_s, mark.end_s + clock_s), 1000 + pid, 1, {})
    for i in range(len(spans)):
        if known[i] and np.isfinite(spans.called_s[i]):
            called = float(spans.called_s[i]) + clock_s, float(ends_s[i]) + clock_s
            operator = OPERATORS.get(CLASSES[int(spans.kind[i])], "aten::add")
            yield _event("cpu_op", operator, called, 1000 + pid, 1, {"External id": i + 1})
            args = {"External id": i + 1, "correlation": i + 1}
            yield _event("cuda_runtime", "cudaLaunchKernel", called, 1000 + pid, 1, args)
    for i in range(len(spans)):
        args = {"stream": int(spans.stream[i]), "device": 0, "correlation": i + 1, "External id": i + 1}
        if not known[i]:
            args["External id"] = 0
        elif spans.group[i] >= 0:
            args |= _group(trace, i)
        at = float(spans.start_s[i]) + clock_s, float(spans.end_s[i]) + clock_s
        yield _event("kernel", trace.name(int(spans.name[i])), at, 0, int(spans.stream[i]), args)


def _ends_s(trace: RankTrace) -> Floats:
    """When the call of each operation ends: where the next one or a step begins or ends, as slices of a thread nest."""
    called_s = trace.spans.called_s
    of_marks_s = [edge_s for mark in trace.marks for edge_s in (mark.start_s, mark.end_s)]
    edges_s = np.unique([*of_marks_s, *called_s[np.isfinite(called_s)], np.inf])
    after_s = edges_s[np.minimum(np.searchsorted(edges_s, called_s, side="right"), len(edges_s) - 1)]
    found: Floats = np.minimum(called_s + CALLED_US / 1e6, after_s)
    return found


def _group(trace: RankTrace, i: int) -> Json:
    """What the kernel of a collective says of it."""
    spans, group = trace.spans, trace.name(int(trace.spans.group[i]))
    ranks, op, whole = trace.groups[group], trace.name(int(spans.op[i])), float(spans.size_B[i]) / ELEMENT_B
    found: Json = {
        "Collective name": op.replace("-", "_"),
        "In msg nelems": round(whole / (len(ranks) if op in PARTS_IN else 1)),
        "Out msg nelems": round(whole / (len(ranks) if op in PARTS_OUT else 1)),
        "Group size": len(ranks),
        "dtype": "Float",
        "Process Group Name": group,
        "Process Group Description": trace.titles.get(group, ""),
        "Process Group Ranks": str(list(ranks)),
    }
    if spans.peer[i] >= 0:
        found["Dst Rank" if op == "send" else "Src Rank"] = int(spans.peer[i])
    return found


def _event(category: str, name: str, at_s: tuple[float, float], pid: int, tid: int, args: Json) -> Json:
    start_us, end_us = (round(one * 1e6, 3) for one in at_s)
    return {
        "ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid,
        "ts": start_us, "dur": round(end_us - start_us, 3), "args": args,
    }  # fmt: skip


def write_kineto(
    trace: RankTrace, path: str | Path, clock_s: float = 0.0, base_ns: int = 0, seen: float = 1.0,
    order: np.random.Generator | None = None,
) -> None:  # fmt: skip
    """Writes the file, compressed when its name ends in .gz; the same trace gives the same bytes.

    `clock_s`, `seen`: as for `kineto_events`; `base_ns`: the file's `baseTimeNanoseconds`; `order` shuffles the events.
    """
    groups = [
        {"pg_name": name, "pg_desc": trace.titles.get(name, ""), "pg_size": len(ranks), "ranks": list(ranks)}
        for name, ranks in sorted(trace.groups.items())
    ]
    head: Json = {"schemaVersion": 1, "baseTimeNanoseconds": base_ns, "displayTimeUnit": "ms"}
    head["distributedInfo"] = {
        "backend": "nccl", "rank": trace.rank, "world_size": trace.world, "pg_count": len(groups), "pg_config": groups,
    }  # fmt: skip
    head["deviceProperties"] = [{"id": 0, "name": trace.device or "simulated"}]
    events = list(kineto_events(trace, clock_s, seen, trace.rank or 0))
    if order is not None:
        order.shuffle(events)
    with replacing(path) as raw:
        file = gzip.GzipFile("", "wb", 6, raw, mtime=0) if str(path).endswith(".gz") else raw
        file.write((json.dumps(head)[:-1] + ', "traceEvents": [\n').encode())
        for i, event in enumerate(events):
            file.write((",\n" if i else "").encode() + json.dumps(event, separators=(",", ":")).encode())
        file.write(b"\n]}\n")
        if file is not raw:
            file.close()
