"""When devices start and end: replayed from a pipeline's program without the simulator, or from an order alone.

`order_spans_s` gives what the program of the order would, pass by pass, without building it: a test holds it to that.
"""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Array
from lockstep.simulate.parallel.pipeline.construct import held_s, neighbours, pass_seconds
from lockstep.simulate.parallel.pipeline.passes import Where, kind_of
from lockstep.simulate.parallel.pipeline.schedule import Order, Schedule
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
    """(first start, last end) of every device [devices], which goes on while the inputs of its next pass are there."""
    lines, place, moved = _lines(schedule, order, chunks, times), [0] * len(order), True
    first_s, free_s = [math.inf] * len(order), [0.0] * len(order)
    while moved:
        moved = False
        for device, lane in enumerate(order):
            before = at = place[device]
            while at < len(lane):
                step, i, chunk = lane[at]
                found = lines[step, (device, chunk)].run(i, free_s[device])
                if found is None:
                    break
                start_s, free_s[device] = found
                first_s[device] = min(first_s[device], start_s)
                at += 1
            place[device], moved = at, moved or at > before
    return np.array(first_s), np.array(free_s)


@dataclass(frozen=True, slots=True)
class _Line:
    """Passes of one kind of a chunk, and when those of each micro-batch are done."""

    seconds: float
    hold_s: float
    needs: tuple[dict[int, float], ...]
    """When what they wait for is there."""
    ready_s: dict[int, float]
    there_s: dict[int, float] | None
    """When another device has what they made; the last message, which the next one follows, at -1."""
    transfer_s: float

    def run(self, i: int, free_s: float) -> tuple[float, float] | None:
        """(start, end) of a pass on a device that is free from then on; None while its inputs are unknown."""
        start_s = free_s
        for known in self.needs:
            known_s = known.get(i)
            if known_s is None:
                return None
            start_s = known_s if known_s > start_s else start_s
        self.ready_s[i] = end_s = start_s + self.seconds + self.hold_s
        if self.there_s is not None:
            self.there_s[i] = self.there_s[-1] = max(end_s, self.there_s.get(-1, 0.0)) + self.transfer_s
        return start_s, end_s


def _lines(schedule: Schedule, order: Order, chunks: int, times: Times) -> dict[tuple[str, Where], _Line]:
    """The lines of a replay, by kind of pass and chunk."""
    stages, lines, transfer_s = len(order), {}, 0.0 if times.blocking else float(times.transfer_s)
    seconds, beside = pass_seconds(schedule, stages, chunks, times), neighbours(schedule, stages, chunks)
    ready_s: dict[tuple[str, Where], dict[int, float]] = defaultdict(dict)
    there_s: dict[tuple[str, Where], dict[int, float]] = defaultdict(dict)
    for step, here in {(step, (device, chunk)) for device, lane in enumerate(order) for step, _, chunk in lane}:
        kind, of_weights = kind_of(step), step == "W"
        before, behind = (None, None) if of_weights else beside[here][:: 1 if step == "F" else -1]
        needs = [] if step == "F" else [ready_s["B" if of_weights else "F", here]]
        if before is not None:
            needs.append((ready_s if before[0] == here[0] else there_s)[kind, before])
        sent_s = there_s[kind, here] if behind is not None and behind[0] != here[0] else None
        hold_s = 0.0 if of_weights else held_s(times, stages)
        known = tuple(needs), ready_s[kind, here], sent_s, transfer_s
        lines[step, here] = _Line(float(seconds[step][here]), hold_s, *known)
    return lines
