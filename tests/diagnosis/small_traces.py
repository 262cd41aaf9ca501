"""Traces of PyTorch's profiler of a few events, in the form that Kineto writes, for tests of how they are read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_cublas"
Event = dict[str, Any]


def annotation(name: str, ts: float, dur: float, args: Event | None = None) -> Event:
    """An annotation of the host."""
    return {
        "ph": "X", "cat": "user_annotation", "name": name, "pid": 100, "tid": 100, "ts": ts, "dur": dur,
        "args": args or {},
    }  # fmt: skip


def kernel(ts: float, dur: float, name: str = GEMM, stream: int = 7) -> list[Event]:
    """A kernel and its launch, 60 us before it."""
    number = round(ts * 10) + stream
    launch = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 100, "tid": 100, "ts": ts - 60}
    ran = {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": stream, "ts": ts, "dur": dur}
    args = {"stream": stream, "device": 0, "correlation": number}
    return [{**launch, "dur": 3, "args": {"correlation": number}}, {**ran, "args": args}]


def product(ts: float, dur: float, sides: tuple[int, int, int], number: int) -> list[Event]:
    """A matrix product of (m, n, k) in bf16 with its operator, whose shapes were recorded."""
    m, n, k = sides
    args = {"External id": number, "Input Dims": [[m, k], [k, n]], "Input type": ["c10::BFloat16"] * 2}
    launch, ran = kernel(ts, dur)
    operator = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 100, "tid": 100, "ts": ts - 61, "dur": 5}
    ran["args"]["External id"] = launch["args"]["External id"] = number
    return [{**operator, "args": args}, launch, ran]


def steps(kernels: Sequence[int], lengths_us: Sequence[float], first: int = 1) -> list[Event]:
    """Steps that follow one another, each with so many kernels of 900 us."""
    found, at = [], 1000.0
    for number, (count, length_us) in enumerate(zip(kernels, lengths_us, strict=True), start=first):
        found.append(annotation(f"ProfilerStep#{number}", at, length_us))
        for place in range(count):
            found += kernel(at + 100 + 950 * place, 900)
        at += length_us + 5
    return found


def write(path: Path, events: Iterable[Event], rank: int | None = 0, world: int = 2) -> Path:
    """A file of one rank; None writes what a run without torch.distributed does."""
    head: Event = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}]}
    if rank is not None:
        head["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": world}
    path.write_text(json.dumps({**head, "traceEvents": list(events)}))
    return path
