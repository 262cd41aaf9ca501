"""When devices start and end: replayed from a pipeline's program without the simulator, or from an order alone.

`order_spans_s` gives what the program of the order would, pass by pass, without building it: a test holds it to that.
"""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np

from lockstep.base.types.arrays import Array
from lockstep.simulate.parallel.pipeline.construct import held_s, neighbours, pass_seconds
from lockstep.simulate.parallel.pipeline.passes import Key, Where, kind_of
from lockstep.simulate.parallel.pipeline.schedule import Order, Pass, Schedule
from lockstep.simulate.parallel.pipeline.times import Times
from lockstep.simulate.program import Program, longest_path


def replay_s(program: Program) -> tuple[float, float]:
    """(makespan, longest time of one device from its first start to its last end) of a program that needs no links."""
    start_s, end_s = spans_s(program)
    return float(end_s.max()), float((end_s - start_s).max())


def spans_s(program: Program) -> tuple[Array, Array]:
    """(first start, last end) of every device's computing [devices], of a program that needs no links."""
    graph = program.graph
    duration_s = np.zeros(graph.num_nodes)
    np.maximum.at(duration_s, graph.node, program.duration_s)
    end_s = longest_path(graph.before, duration_s)[graph.node]
    on_lane = program.stream == program.streams.index("compute")
    rank, start_s = program.rank[on_lane], (end_s - program.duration_s)[on_lane]
    first_s = np.full(program.ranks, np.inf)
    last_s = np.zeros(program.ranks)
    np.minimum.at(first_s, rank, start_s)
    np.maximum.at(last_s, rank, end_s[on_lane])
    return first_s, last_s


def order_spans_s(schedule: Schedule, order: Order, chunks: int, times: Times) -> tuple[Array, Array]:
    """(first start, last end) of every device [devices], its passes one after another in this order."""
    return _Replay(schedule, order, chunks, times).play()


class _Replay:
    """One replay: every device goes on as long as the inputs of its next pass are there."""

    def __init__(self, schedule: Schedule, order: Order, chunks: int, times: Times) -> None:
        stages = len(order)
        self.order, self.hold_s = order, held_s(times, stages)
        self.transfer_s = 0.0 if times.blocking else float(times.transfer_s)
        self.seconds = {step: rows.tolist() for step, rows in pass_seconds(schedule, stages, chunks, times).items()}
        self.neighbours = neighbours(schedule, stages, chunks)
        self.ready_s: dict[Key, float] = {}
        """When passes are done."""
        self.there_s: dict[Key, float] = {}
        """When inputs from other devices are there."""
        self.lane_s: dict[tuple[str, Where], float] = defaultdict(float)
        """When the messages of one kind that a chunk sends, which follow one another, are through."""
        self.first_s, self.free_s = [math.inf] * stages, [0.0] * stages

    def play(self) -> tuple[Array, Array]:
        """(first start, last end) by device."""
        place, moved = [0] * len(self.order), True
        while moved:
            moved = False
            for device, lane in enumerate(self.order):
                before = at = place[device]
                while at < len(lane) and (input_s := self._input_s(device, lane[at])) is not None:
                    self._run(device, lane[at], input_s)
                    at += 1
                place[device], moved = at, moved or at > before
        return np.array(self.first_s), np.array(self.free_s)

    def _input_s(self, device: int, one: Pass) -> float | None:
        """When a pass has its inputs; None while that is unknown."""
        step, i, chunk = one
        here = (device, chunk)
        if step == "W":
            return self.ready_s.get(("B", i, here))
        source = self.neighbours[here][0 if step == "F" else 1]
        own_s = 0.0 if step == "F" else self.ready_s.get(("F", i, here))
        if source is None or own_s is None:
            return own_s
        known = self.ready_s if source[0] == device else self.there_s
        other_s = known.get((kind_of(step), i, source))
        return None if other_s is None else max(own_s, other_s)

    def _run(self, device: int, one: Pass, input_s: float) -> None:
        """Runs a pass, and sends what it made."""
        step, i, chunk = one
        here, kind = (device, chunk), kind_of(step)
        start_s = max(self.free_s[device], input_s)
        end_s = start_s + self.seconds[step][device][chunk] + (0.0 if step == "W" else self.hold_s)
        self.first_s[device] = min(self.first_s[device], start_s)
        self.free_s[device] = end_s
        if step == "W":
            return
        self.ready_s[kind, i, here] = end_s
        target = self.neighbours[here][1 if step == "F" else 0]
        if target is not None and target[0] != device:
            through_s = max(end_s, self.lane_s[kind, here]) + self.transfer_s
            self.lane_s[kind, here] = self.there_s[kind, i, here] = through_s
