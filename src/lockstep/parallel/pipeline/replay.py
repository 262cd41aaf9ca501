"""When devices start and end, replayed from a pipeline's program without the simulator.

`order_spans_s` replays an order for given times: what waits for what depends on the order alone, so that its program is
built once, with numbers in place of seconds, and filled with the seconds of each question.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from lockstep.parallel.pipeline.construct import held_s, pass_seconds, program_of
from lockstep.parallel.pipeline.passes import PassTimes
from lockstep.parallel.pipeline.schedule import Order, Pass, Schedule
from lockstep.parallel.pipeline.times import Times
from lockstep.program import Program, longest_path
from lockstep.types.arrays import Array

STEPS = "FBIW"


def replay_s(program: Program) -> tuple[float, float]:
    """(makespan, longest time of one device from its first start to its last end) of a program that needs no links."""
    start_s, end_s = spans_s(program)
    return float(end_s.max()), float((end_s - start_s).max())


def spans_s(program: Program) -> tuple[Array, Array]:
    """(first start, last end) of every device's computing [devices], of a program that needs no links."""
    return _spans(program, program.duration_s)


def order_spans_s(schedule: Schedule, order: Order, chunks: int, times: Times) -> tuple[Array, Array]:
    """(first start, last end) of every device [devices], its passes one after another in this order."""
    stages = len(order)
    hold_s = held_s(times, stages)
    frame = _frame(schedule, tuple(map(tuple, order)), chunks, times.blocking, hold_s > 0)
    seconds = pass_seconds(schedule, stages, chunks, times)
    passing_s = [hold_s, 0.0 if times.blocking else float(times.transfer_s)]
    known_s = np.concatenate([[0.0], *(seconds[step].ravel() for step in STEPS), passing_s])
    return _spans(frame.program, known_s[frame.number])


@dataclass(frozen=True, eq=False, slots=True)
class _Frame:
    """The program of an order with numbers in place of seconds: 0 for none, of passes, of a held device, of a send."""

    program: Program
    number: Array
    """Of every operation."""


@lru_cache(maxsize=32)
def _frame(schedule: Schedule, order: tuple[tuple[Pass, ...], ...], chunks: int, blocking: bool, holds: bool) -> _Frame:
    stages, places = len(order), len(order) * chunks
    numbers = 1.0 + np.arange(len(STEPS) * places).reshape(len(STEPS), stages, chunks)
    hold, send = 1.0 + numbers.size, 2.0 + numbers.size
    none = dict.fromkeys(STEPS, np.zeros((stages, chunks)))
    passes = PassTimes(dict(zip(STEPS, numbers, strict=True)), none, 0.0, hold if holds else 0.0)
    times = Times(0.0, 0.0, transfer_s=send, blocking=blocking)
    built = program_of(schedule, [list(lane) for lane in order], chunks, times, scripts=passes)
    return _Frame(built, np.rint(built.duration_s).astype(np.intp))


def _spans(program: Program, seconds: Array) -> tuple[Array, Array]:
    """The spans where operations take `seconds`."""
    graph = program.graph
    duration_s = np.zeros(graph.num_nodes)
    np.maximum.at(duration_s, graph.node, seconds)
    end_s = longest_path(graph.before, duration_s)[graph.node]
    on_lane = program.stream == program.streams.index("compute")
    rank, start_s = program.rank[on_lane], (end_s - seconds)[on_lane]
    first_s = np.full(program.ranks, np.inf)
    last_s = np.zeros(program.ranks)
    np.minimum.at(first_s, rank, start_s)
    np.maximum.at(last_s, rank, end_s[on_lane])
    return first_s, last_s
