"""Matrix products of a trace by shape, where the profiler was asked to record shapes (`record_shapes=True`).

An operator's arguments say the shapes and formats of its inputs (`Input Dims`, `Input type`), and its kernels carry its
External id, themselves or through the call that launched them: their seconds together are the product's. Convolutions
and fused kernels of compiled code have no shapes of this kind and are left out.

Source: PyTorch, torch/csrc/profiler/kineto_shim.cpp and autograd/profiler_kineto.cpp (2025), for the arguments.
"""

from __future__ import annotations

import re
from array import array
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from lockstep.base.documents.files import File
from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Array, Floats, Ints
from lockstep.base.types.plain import Json, picked
from lockstep.explain.read.file import stream
from lockstep.explain.read.json_stream import members

Shape = tuple[int, int, int, int, str]
"""(m, n, k, count, format) of a product."""
PRODUCT = re.compile(r"^aten::(_scaled_|b|add|baddb)?mm(_out)?_?$|^aten::_addmm_activation$")
ADDED_FIRST = re.compile(r"add")
"""Operators whose first input is what the product is added to."""
DTYPES = {"c10::BFloat16": "bf16", "c10::Half": "fp16", "float": "fp32", "double": "fp64"}
ELEMENT_B = {"bf16": 2.0, "fp16": 2.0, "fp32": 4.0, "fp64": 8.0, "fp8": 1.0}
RESULT_B = {"fp8": 2.0}
"""Bytes of an element of the result where it is wider than the inputs."""


@dataclass(frozen=True, slots=True)
class Product:
    """`count` products of m x k by k x n in one operator, and the seconds of every time it ran."""

    m: int
    n: int
    k: int
    count: int
    dtype: str
    times_s: tuple[float, ...]

    @property
    def time_s(self) -> float:
        """Median seconds."""
        return float(np.median(self.times_s))

    @property
    def flops(self) -> float:
        """FLOPs of one run."""
        return 2.0 * self.m * self.n * self.k * self.count

    @property
    def size_B(self) -> float:
        """Bytes of the operands and the result."""
        element_B = ELEMENT_B[self.dtype]
        read_B = element_B * (self.m * self.k + self.k * self.n)
        return self.count * (read_B + RESULT_B.get(self.dtype, element_B) * self.m * self.n)

    @property
    def flops_per_s(self) -> float:
        """Rate of the median run."""
        return self.flops / self.time_s

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self, "m n k count dtype time_s flops_per_s") | {"runs": len(self.times_s)}


def read_products(path: File) -> tuple[Product, ...]:
    """Products of the trace that `read_kineto` reads too, those that took longest in total first.

    Empty where shapes were not recorded. Raises BadInput for a damaged file.
    """
    shapes: dict[int, Shape] = {}
    kernels: dict[str, array[Any]] = {"external": array("q"), "correlation": array("q"), "us": array("d")}
    calls: dict[str, array[Any]] = {"correlation": array("q"), "external": array("q")}
    with stream(path) as file:
        for key, event in members(path, file, "traceEvents"):
            if key != "traceEvents" or not isinstance(event, dict) or not isinstance(args := event.get("args"), dict):
                continue
            category, external = event.get("cat"), args.get("External id")
            if category == "cpu_op" and external and (shape := shape_of(str(event.get("name")), args)) is not None:
                shapes[int(external)] = shape
            elif category == "kernel":
                kernels["external"].append(int(external or 0))
                kernels["correlation"].append(int(args.get("correlation") or 0))
                kernels["us"].append(float(event.get("dur") or 0.0))
            elif category in ("cuda_runtime", "hip_runtime") and external and args.get("correlation"):
                calls["correlation"].append(int(args["correlation"]))
                calls["external"].append(int(external))
    return _timed(shapes, {name: np.array(column) for name, column in kernels.items()}, calls)


def kernel_rates(
    shapes: Sequence[Shape], shape: Ints, kernel: Ints, took_s: Floats
) -> dict[int, tuple[float, tuple[int, ...] | None]]:
    """FLOP/s of each `kernel`, and (m, n, k, count) where it had one shape alone.

    Args: `shape` of every kernel that ran, in `shapes`; `kernel` and `took_s`: what it is, and its seconds.
    """
    flops = np.array([2.0 * m * n * k * count for m, n, k, count, _ in shapes])[shape]
    found = {}
    for one in np.unique(kernel).tolist():
        mine = kernel == one
        seconds, of = float(took_s[mine].sum()), np.unique(shape[mine]).tolist()
        if seconds > 0:
            found[int(one)] = float(flops[mine].sum()) / seconds, shapes[of[0]][:4] if len(of) == 1 else None
    return found


def _timed(shapes: dict[int, Shape], kernels: dict[str, Array], calls: dict[str, array[Any]]) -> tuple[Product, ...]:
    """Shapes with the seconds of the kernels that their operators launched."""
    launched = dict(zip(calls["correlation"], calls["external"], strict=True))
    owner: Ints = kernels["external"].astype(np.int64)
    for i in np.flatnonzero(owner == 0).tolist():
        owner[i] = launched.get(int(kernels["correlation"][i]), 0)
    took_s: dict[int, float] = defaultdict(float)
    for external, us in zip(owner.tolist(), kernels["us"].tolist(), strict=True):
        if external in shapes:
            took_s[external] += us / 1e6
    runs: dict[Shape, list[float]] = defaultdict(list)
    for external, seconds in took_s.items():
        if seconds > 0:
            runs[shapes[external]].append(seconds)
    found = [Product(*shape, tuple(times_s)) for shape, times_s in runs.items()]
    return tuple(sorted(found, key=lambda one: (-sum(one.times_s), one.m, one.n, one.k)))


def shape_of(name: str, args: Json) -> Shape | None:
    """(m, n, k, count, format) of a product; None for what is none, or says no shapes."""
    dims, kinds = args.get("Input Dims"), args.get("Input type")
    if not PRODUCT.match(name) or not isinstance(dims, list) or not isinstance(kinds, list):
        return None
    first = 1 if ADDED_FIRST.search(name) else 0
    pair, kind = dims[first : first + 2], kinds[first] if len(kinds) > first else None
    dtype = "fp8" if "Float8" in str(kind) else DTYPES.get(str(kind))
    if dtype is None or len(pair) < 2 or not all(_sides(one) for one in pair):
        return None
    left, right = pair
    if len(left) != len(right) or left[-1] != right[-2] or left[:-2] != right[:-2]:
        return None
    return left[-2], right[-1], left[-1], left[0] if len(left) == 3 else 1, dtype


def _sides(one: object) -> bool:
    return isinstance(one, list) and len(one) in (2, 3) and all(isinstance(side, int) and side > 0 for side in one)
