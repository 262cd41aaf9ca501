"""Operators of a trace and the kernels that each launched, for programs whose calls are known one by one.

An operator lies in another one where the same thread ran it meanwhile: `aten::_to_copy` in `aten::to`. A kernel
carries the External id of the innermost operator around its launch, itself or through the call that launched it.

Source: PyTorch, torch/csrc/autograd/profiler_kineto.cpp and Kineto, libkineto/src/output_json.cpp (2025).
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence

import numpy as np

from lockstep.base.documents.files import File
from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Floats, Ints
from lockstep.base.types.plain import Json
from lockstep.explain.classes import COMMUNICATION, class_of
from lockstep.explain.read.file import stream
from lockstep.explain.read.json_stream import members
from lockstep.explain.read.kineto import CALLS, DEVICE
from lockstep.explain.read.kineto_host import numbers, places
from lockstep.explain.steps import PROFILER_STEP


@dataclass(frozen=True, slots=True)
class Operators:
    """Operators of the host `[operators]`, each after the one that it lies in, and kernels `[kernels]`."""

    names: tuple[str, ...]
    name: Ints
    """Index in `names`."""
    start_us: Floats
    inside: Ints
    """The operator that it lies in, -1 for none."""
    shape: Ints
    """Index in `shapes` of its first input; -1 where shapes were not recorded."""
    shapes: tuple[str, ...]
    """As `4x2048`."""
    kernel: Ints
    """The operator that launched each kernel, -1 where none is known."""
    kernel_start_us: Floats
    kernel_s: Floats
    steps: Mapping[int, tuple[float, float]]
    """Microseconds between which the host ran each step, by its number."""


OPERATORS = ("start", "took", "name", "thread", "external", "shape")
KERNELS = ("start", "took", "external", "correlation")
LAUNCHES = ("correlation", "external")


class _Columns:
    """What is kept while the file is read; whole numbers are exact up to 2^53."""

    def __init__(self) -> None:
        self.names, self.shapes, self.threads = dict[str, int](), dict[str, int](), dict[str, int]()
        self.operators, self.kernels, self.launches = (
            [array("d") for _ in one] for one in (OPERATORS, KERNELS, LAUNCHES)
        )
        self.steps = dict[int, tuple[float, float]]()

    def keep(self, event: Json) -> None:
        """Keeps what is needed of an event."""
        if event.get("ph") != "X" or (category := event.get("cat")) is None:
            return
        args, name = event.get("args") or {}, str(event["name"])
        external, correlation = int(args.get("External id") or 0), int(args.get("correlation") or 0)
        span = float(event["ts"]), float(event.get("dur") or 0.0)
        if category in DEVICE and class_of(name) != COMMUNICATION:
            _add(self.kernels, *span, external, correlation)
        elif category in CALLS:
            _add(self.launches, correlation, external)
        elif category == "cpu_op":
            thread = self.threads.setdefault(f"{event.get('pid')}/{event.get('tid')}", len(self.threads))
            text = _first(args.get("Input Dims"))
            shape = self.shapes.setdefault(text, len(self.shapes)) if text else -1
            _add(self.operators, *span, self.names.setdefault(name, len(self.names)), thread, external, shape)
        elif category == "user_annotation" and (step := PROFILER_STEP.match(name)):
            self.steps.setdefault(int(step[1]), (span[0], span[0] + span[1]))

    def made(self) -> Operators:
        """The columns as arrays, operators in the order of their threads and starts."""
        start, took, *whole = map(numbers, self.operators)
        order = np.lexsort((-took, start, whole[1]))
        start, took = start[order], took[order]
        name, thread, external, shape = (one[order].astype(np.int64) for one in whole)
        kernel_start, kernel_took, *ids = map(numbers, self.kernels)
        of, kernel_correlation = (one.astype(np.int64) for one in ids)
        correlation, launched_by = (numbers(one).astype(np.int64) for one in self.launches)
        place = places(correlation, kernel_correlation)
        lost = (place >= 0) & (of == 0)
        of[lost] = launched_by[place[lost]]
        inside, kernel = _inside(start, start + took, thread), places(external, of)
        names, shapes = tuple(self.names), tuple(self.shapes)
        return Operators(names, name, start, inside, shape, shapes, kernel, kernel_start, kernel_took / 1e6, self.steps)


def _add(columns: Sequence[array[float]], *values: float) -> None:
    for column, value in zip(columns, values, strict=True):
        column.append(value)


def _first(dims: object) -> str:
    """The shape of the first input that is a tensor; a list of tensors gives that of its first."""
    while isinstance(dims, list) and dims and isinstance(dims[0], list):
        dims = dims[0]
    return "x".join(str(int(one)) for one in dims) if isinstance(dims, list) else ""


def _inside(start_us: Floats, end_us: Floats, thread: Ints) -> Ints:
    """The operator around each, of operators in the order of threads and starts, longer ones first."""
    found, around, before = np.full(len(start_us), -1), list[int](), -1
    for at, (begins, of) in enumerate(zip(start_us.tolist(), thread.tolist(), strict=True)):
        if of != before:
            around, before = [], of
        while around and end_us[around[-1]] <= begins:
            around.pop()
        found[at] = around[-1] if around else -1
        around.append(at)
    return found


def read_operators(path: File) -> Operators:
    """Operators of the trace that `read_kineto` reads too. Raises BadInput for a damaged file."""
    kept = _Columns()
    with stream(path) as file:
        for count, (key, event) in enumerate(members(path, file, "traceEvents")):
            if key != "traceEvents" or not isinstance(event, dict):
                continue
            try:
                kept.keep(event)
            except (TypeError, ValueError, AttributeError, OverflowError, KeyError) as error:
                raise BadInput(f"event {count:,} is damaged: {error}", str(path)) from None
    return kept.made()
