"""An execution trace of PyTorch (`ExecutionTraceObserver`; Chakra): what ran and with which shapes, and no times.

Recorded together with the profiler's trace of the same process, it has the sizes of gloo's exchanges, which that one
lacks: both number their records alike. Of an all-gather or a gather the size is that of the operator's whole list.

Source: torch/csrc/profiler/standalone/execution_trace_observer.cpp, schema 1.1.1-chakra.0.0.4, as PyTorch 2.13 writes
it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from lockstep.base.documents.files import File
from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass, replace
from lockstep.base.types.plain import Json
from lockstep.explain.classes import op_of
from lockstep.explain.read import SHAPES, Kind, register
from lockstep.explain.read.file import Head, stream
from lockstep.explain.read.json_stream import members
from lockstep.explain.read.kineto_host import ELEMENT_B, WHOLE_INPUT
from lockstep.explain.trace import RankTrace

SCHEMA = re.compile(rb'"schema"\s*:\s*"[\d.]+-chakra')
ELEMENT = re.compile(r"Tensor\(([^()]+)\)")
GLOO = "gloo:"
OPERATORS = "c10d::"
LISTS = {"scatter": 1}
"""Place of the argument that holds the whole, where it is not the first one."""


@dataclass(frozen=True, slots=True)
class Shapes:
    """Bytes of the exchanges of a process, by the number of their record."""

    path: str
    pid: int
    size_B: Mapping[int, float]


def read_execution_trace(path: File) -> Shapes:
    """The sizes of exchanges. Raises BadInput with the place for a file that is damaged."""
    pid, found, callers = 0, dict[int, tuple[str, float]](), dict[int, tuple[str, float]]()
    with stream(path) as file:
        for key, value in members(path, file, "nodes"):
            try:
                if key == "pid":
                    pid = int(value)
                elif key == "nodes" and (name := str(value["name"])).startswith((GLOO, OPERATORS)):
                    record, size_B = _record(value, LISTS.get(op_of(name), 0) if name.startswith(OPERATORS) else None)
                    (found if name.startswith(GLOO) else callers)[record] = op_of(name), size_B
            except (KeyError, TypeError, ValueError, IndexError, StopIteration, OverflowError, RecursionError) as error:
                raise BadInput(f"one of its nodes is damaged: {error}", str(path)) from None
    return Shapes(str(path), pid, dict(_whole(found, callers)))


def _record(node: Json, only: int | None) -> tuple[int, float]:
    """(number of its record, bytes of its tensors, or of one argument alone)."""
    number = next(one["value"] for one in node["attrs"] if one["name"] == "rf_id")
    pairs = list(zip(node["inputs"]["shapes"], map(str, node["inputs"]["types"]), strict=True))
    return int(number), sum(_size_B(*one) for one in (pairs if only is None else pairs[only : only + 1]))


def _whole(
    found: Mapping[int, tuple[str, float]], callers: Mapping[int, tuple[str, float]]
) -> Iterator[tuple[int, float]]:
    """Bytes of every exchange; of one that is given a part, those of the operator's list that ran just before it."""
    last: dict[str, float] = {}
    for record in sorted((*found, *callers)):
        if record in callers:
            op, size_B = callers[record]
            last[op] = size_B
        else:
            op, size_B = found[record]
            yield record, 0.0 if op == "barrier" else size_B if op in WHOLE_INPUT else last.get(op, 0.0)


def _size_B(shape: Sequence[object], kind: str) -> float:
    """Bytes of a tensor, or of all tensors in nested lists."""
    element = ELEMENT.search(kind)
    if element is None:
        return 0.0
    return ELEMENT_B.get(element[1], 0) * float(sum(math.prod(one) for one in _dimensions(shape)))


def _dimensions(shape: Sequence[object]) -> Iterator[list[int]]:
    """Dimensions of every tensor: lists of numbers, however deep."""
    sides = [one for one in shape if isinstance(one, int)]
    if len(sides) == len(shape):
        yield sides
    for one in shape:
        if isinstance(one, list):
            yield from _dimensions(one)


def with_shapes(traces: Sequence[RankTrace], shapes: Sequence[Shapes]) -> list[RankTrace]:
    """Traces whose exchanges have the sizes that execution traces of the same process say.

    Raises BadInput for an execution trace without the profiler's trace of its process.
    """
    found = list(traces)
    for one in shapes:
        same = [i for i, trace in enumerate(found) if trace.pid == one.pid and (trace.recorded or not one.size_B)]
        place = same[0] if same else None
        if place is None:
            raise BadInput(
                "is an execution trace (Chakra), which says what ran and not when; give the trace of torch.profiler of "
                "the same process and steps with it",
                one.path,
            )
        found[place] = _filled(found[place], one)
    return found


def _filled(trace: RankTrace, shapes: Shapes) -> RankTrace:
    spans, size_B = trace.spans, trace.spans.size_B.copy()
    for record, start_s in trace.recorded.items():
        if record in shapes.size_B:
            size_B[(spans.start_s == start_s) & spans.communicates & (size_B == 0)] = shapes.size_B[record]
    return trace if np.array_equal(size_B, spans.size_B) else replace(trace, spans=replace(spans, size_B=size_B))


def _recognise(begun: Head) -> bool:
    return SCHEMA.search(begun.data) is not None


KIND = register(Kind("execution-trace", "an execution trace of PyTorch", SHAPES, _recognise, read_execution_trace))
