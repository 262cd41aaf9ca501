"""Automatic zero-bubble order for given times and memory: greedy decisions, the best of a small grid of policies.

Devices decide in the order of time. A device that is free takes an input-gradient pass when one is ready, else a
forward pass when one is ready, memory allows it and it is not too far ahead, else a weight-gradient pass when nothing
else will come soon, else it waits. A policy says how far ahead forward passes may run beyond what fills the time to
the first gradient (`slack`), how long a gap must be, in weight passes, to put one in (`patience`), and whether forward
and backward passes take turns when both are ready; the best one is found with FEW p micro-batches. The order with the
shortest longest device time (`stage_s`) wins, the hand-made ones that fit the memory included; ties: the first,
hand-made ones before the grid.

Activations of a micro-batch count 1 from F to I, then `kept_frac` until W: what the weight gradients still need, for a
transformer layer without flash attention 32 / (34 + 5 a s / h) (a heads, s tokens, h hidden size).

Source: after Qi et al. 2024, "Zero Bubble Pipeline Parallelism" (arXiv 2401.10241), section 3.1, whose ZB-1p and
ZB-2p have `memory` p and 2p; the decisions here are our own, and the tests compare the bubble rates with theirs.
"""

from __future__ import annotations

import heapq
import math
from functools import lru_cache
from itertools import product

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass, field
from lockstep.simulate.parallel.pipeline.replay import order_spans_s
from lockstep.simulate.parallel.pipeline.schedule import Order
from lockstep.simulate.parallel.pipeline.schedules.zero_bubble_h1 import ZERO_BUBBLE_H1
from lockstep.simulate.parallel.pipeline.schedules.zero_bubble_h2 import ZERO_BUBBLE_H2
from lockstep.simulate.parallel.pipeline.times import Times

SLACKS = (0, 1, 2)
PATIENCE = (0.0, 0.25, 0.5, 0.75, 1.0)
FEW = 4


def automatic_order(
    stages: int, microbatches: int, times: Times, *, memory: float | None = None, kept_frac: float = 1.0
) -> Order:
    """The best order found for equal stages and overlapped messages, holding at most `memory` micro-batches.

    `memory` is p unless given. Passes are F, I, W; `program_of` with the placement of zb-h1 makes the program. Raises
    BadInput, also for passes that take no time.
    """
    memory = float(stages) if memory is None else memory
    pace = _Pace.of(stages, times)
    if memory < 1 or not 0 <= kept_frac <= 1 or stages < 1 or microbatches < 1:
        given = f"stages={stages}, microbatches={microbatches}, memory={memory}, kept_frac={kept_frac}"
        raise BadInput(f"need at least one stage, micro-batch and unit of memory, and kept_frac in 0 .. 1; got {given}")
    few = min(microbatches, FEW * stages)
    by_hand_s, order = _hand_made(stages, microbatches, times, memory)
    to_beat_s = by_hand_s * (1 - 1e-12)
    if microbatches * pace.work_s >= to_beat_s:
        return order
    stage_s = to_beat_s if few == microbatches else math.inf
    for slack, patience, turns in product(SLACKS, PATIENCE, (False, True)):
        policy = memory, kept_frac, slack, patience * pace.weight_s, turns
        run = _Run(pace, stages, few, *policy)
        if (found_s := run.play(stage_s)) < stage_s:
            stage_s, best, found = found_s, policy, run.order
    if few < microbatches:
        run = _Run(pace, stages, microbatches, *best)
        stage_s, found = run.play(), run.order
    return found if stage_s < to_beat_s else order


def tuned_order(stages: int, microbatches: int, times: Times, memory: float) -> Order:
    """The automatic order for any times: of the slowest stage, messages that hold a device as part of its passes.

    Passes that all take equally long stand for those of which one kind takes no time.
    """
    forward_s, backward_s = times.held(stages)
    delay_s = 0.0 if times.blocking else times.transfer_s
    slowest = [float(np.max(value)) for value in (forward_s, backward_s, times.weight_part_s, delay_s)]
    return _tuned(stages, microbatches, memory, *slowest)


@lru_cache(maxsize=64)
def _tuned(
    stages: int, microbatches: int, memory: float, forward_s: float, backward_s: float, weight_s: float, delay_s: float
) -> Order:
    times = Times(forward_s, backward_s, weight_s, delay_s, blocking=False)
    if min(forward_s, backward_s - weight_s, weight_s) <= 0:
        times = Times(1.0, 2.0, 1.0, blocking=False)
    return automatic_order(stages, microbatches, times, memory=memory)


def _hand_made(stages: int, microbatches: int, times: Times, memory: float) -> tuple[float, Order]:
    """(stage_s, order) of the better of zb-h1 and zb-h2 among those that fit; infinite when none does."""
    best: tuple[float, Order] = (math.inf, [])
    for schedule in (ZERO_BUBBLE_H1, ZERO_BUBBLE_H2):
        if float(schedule.peak_live(stages, microbatches, 1, 0)) <= memory:
            order = schedule.order(stages, microbatches, 1)
            start_s, end_s = order_spans_s(schedule, order, 1, times)
            stage_s = float((end_s - start_s).max())
            best = min(best, (stage_s, order), key=lambda found: found[0])
    return best


@dataclass(frozen=True, slots=True)
class _Pace:
    """Seconds of the passes of a stage, and of a message."""

    forward_s: float
    input_s: float
    weight_s: float
    delay_s: float

    @property
    def work_s(self) -> float:
        """All passes of a micro-batch."""
        return self.forward_s + self.input_s + self.weight_s

    @staticmethod
    def of(stages: int, times: Times) -> _Pace:
        forward_s, weight_s = float(times.forward_s), float(times.weight_part_s)
        pace = _Pace(forward_s, float(times.backward_s) - weight_s, weight_s, float(times.delay_s(stages)))
        if min(pace.forward_s, pace.input_s, pace.weight_s) <= 0:
            raise BadInput(f"every pass must take some time to be scheduled, got {pace}")
        return pace


@dataclass(slots=True)
class _Device:
    """State of a device: when it is free, how long it waited since it began, what it holds, when its next inputs
    arrive, how many passes it has done.
    """

    free_s: float = 0.0
    started_s: float = -1.0
    waited_s: float = 0.0
    live: float = 0.0
    forward_at: list[float] = field(default_factory=list)
    input_at: list[float] = field(default_factory=list)
    forwards: int = 0
    inputs: int = 0
    weights: int = 0
    last: str = ""


class _Run:
    """One greedy run of one policy."""

    def __init__(
        self, pace: _Pace, stages: int, microbatches: int, memory: float, kept_frac: float, slack: int, gap_s: float,
        turns: bool,
    ) -> None:  # fmt: skip
        self.pace, self.microbatches, self.memory, self.kept = pace, microbatches, memory, kept_frac
        self.gap_s, self.turns = gap_s, turns
        self.devices = [_Device() for _ in range(stages)]
        self.devices[0].forward_at = [0.0] * microbatches
        self.order: Order = [[] for _ in range(stages)]
        # Forward passes that fill the time until the first gradient can be back.
        round_trip_s = 2 * pace.delay_s + pace.forward_s + pace.input_s
        fill = [1 + (stages - s - 1) * round_trip_s / pace.forward_s for s in range(stages)]
        self.ahead = [math.floor(passes + 1e-9) + slack for passes in fill]

    def play(self, within_s: float = math.inf) -> float:
        """Runs to the end; returns the longest time of a device from its first start to its last end.

        Infinite, and left off, as soon as a device has waited so long that this cannot be below `within_s`.
        """
        pace, allowed_s = self.pace, within_s
        if within_s < math.inf:
            allowed_s = within_s * (1 + 1e-9) - self.microbatches * pace.work_s
        waiting = [(0.0, s) for s in range(len(self.devices))]
        while waiting:
            now_s, s = heapq.heappop(waiting)
            step, later_s = self._decide(s, now_s)
            if step:
                later_s = self._do(s, step, now_s)
                if self.devices[s].waited_s > allowed_s:
                    return math.inf
            if self.devices[s].weights < self.microbatches:
                heapq.heappush(waiting, (later_s, s))
        return max(device.free_s - device.started_s for device in self.devices)

    def _decide(self, s: int, now_s: float) -> tuple[str, float]:
        """(pass to run now, or "" and the time to look again)."""
        device, pace = self.devices[s], self.pace
        input_s = forward_s = math.inf
        if device.inputs < device.forwards:
            input_s = self._arrival(device.input_at, device.inputs, s + 1, now_s + pace.input_s)
        close = device.forwards - device.inputs < self.ahead[s] and device.live + 1 <= self.memory + 1e-9
        if close and device.forwards < self.microbatches:
            forward_s = self._arrival(device.forward_at, device.forwards, s - 1, now_s + pace.forward_s)
        if forward_s <= now_s and (input_s > now_s or (self.turns and device.last != "F")):
            return "F", now_s
        if input_s <= now_s:
            return "I", now_s
        next_s = min(input_s, forward_s)
        if device.weights < device.inputs and next_s - now_s >= self.gap_s:
            return "W", now_s
        return "", next_s

    def _arrival(self, known: list[float], index: int, neighbour: int, soonest_s: float) -> float:
        """When an input comes: known, or not before the neighbour could make it."""
        if index < len(known):
            return known[index]
        return max(soonest_s, self.devices[neighbour].free_s) + self.pace.delay_s

    def _do(self, s: int, step: str, now_s: float) -> float:
        """Runs a pass and tells the neighbour; returns its end."""
        device, pace = self.devices[s], self.pace
        if device.started_s < 0:
            device.started_s = now_s
        else:
            device.waited_s += now_s - device.free_s
        if step == "F":
            number, end_s = device.forwards, now_s + pace.forward_s
            device.forwards += 1
            device.live += 1.0
            if s + 1 < len(self.devices):
                self.devices[s + 1].forward_at.append(end_s + pace.delay_s)
            else:
                device.input_at.append(end_s)
        elif step == "I":
            number, end_s = device.inputs, now_s + pace.input_s
            device.inputs += 1
            device.live += self.kept - 1.0
            if s > 0:
                self.devices[s - 1].input_at.append(end_s + pace.delay_s)
        else:
            number, end_s = device.weights, now_s + pace.weight_s
            device.weights += 1
            device.live -= self.kept
        device.free_s, device.last = end_s, step
        self.order[s].append((step, number, 0))
        return end_s
