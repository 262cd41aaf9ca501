"""Automatic order for two chunks in a V (zb-v): its F and I passes, with W put where a device would wait anyway.

Every device keeps the order of F and I of the hand-made schedule, which sets who waits for whom, and decides anew
where the weight gradients go. Before its next F or I it runs the oldest W
    as long as a whole one fits before the input arrives, or the next pass is an F and the memory is full (p
    micro-batches, activations held until W: the memory of 1F1B),
    and once more if the wait that is left is `patience` of a W or more, or would make this device the one that has
    waited longest, by more than `LEAD` of a W: the longest waiting device sets the pace, so waits are shared out.
The order with the shortest longest device time (`stage_s`) over a small grid of `patience` wins, the hand-made one
included; ties: the first.

Source: after Qi et al. 2024, "Zero Bubble Pipeline Parallelism" (arXiv 2401.10241), section 6; the decisions are our
own. With F, I, W = 1000, 1200, 800 per device, messages of 50, p = 8 and m = 24: 5.8 %, printed 5.9, hand-made 6.25.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from lockstep.parallel.pipeline.construct import pass_seconds, program_of, routes
from lockstep.parallel.pipeline.result import replay_s
from lockstep.parallel.pipeline.schedule import Order, Pass
from lockstep.parallel.pipeline.schedules.zero_bubble_v import ZERO_BUBBLE_V
from lockstep.parallel.pipeline.times import Times

PATIENCE = (0.25, 0.5, 0.75, 1.0)
LEAD = 0.25


def automatic_v_order(stages: int, microbatches: int, times: Times) -> Order:
    """The best order found for overlapped messages; `program_of` with ZERO_BUBBLE_V and two chunks makes the program.

    Stages may have times of their own.
    """
    best = ZERO_BUBBLE_V.order(stages, microbatches, 2)
    best_s = _stage_s(best, times)
    hand_made = [[step for step in lane if step[0] != "W"] for lane in best]
    for patience in PATIENCE:
        order = _Filling(hand_made, times, patience).play()
        stage_s = _stage_s(order, times)
        if stage_s < best_s * (1 - 1e-12):
            best, best_s = order, stage_s
    return best


def _stage_s(order: Order, times: Times) -> float:
    return replay_s(program_of(ZERO_BUBBLE_V, order, 2, times))[1]


@dataclass(slots=True)
class _Device:
    """State of a device: when it is free, how long it waited since its first pass, how many chunks' activations it
    holds, which W are due, what it did.
    """

    free_s: float = 0.0
    waited_s: float = 0.0
    live: int = 0
    due: deque[Pass] = field(default_factory=deque)
    lane: list[Pass] = field(default_factory=list)


class _Filling:
    """One run with one patience: the device whose next F or I can start first goes on."""

    def __init__(self, hand_made: Order, times: Times, patience: float) -> None:
        stages = len(hand_made)
        self.todo = [deque(lane) for lane in hand_made]
        self.route = routes(ZERO_BUBBLE_V.placement, stages, 2)[0]
        self.place = {where: k for k, where in enumerate(self.route)}
        self.seconds = {step: values.tolist() for step, values in pass_seconds(ZERO_BUBBLE_V, stages, 2, times).items()}
        self.delay_s = float(times.delay_s(stages))
        self.patience = patience
        self.devices = [_Device() for _ in range(stages)]
        self.end_s: dict[tuple[str, int, int], float] = {}

    def play(self) -> Order:
        """Runs to the end; returns what each device does."""
        while (found := self._next()) is not None:
            s, ready_s = found
            self._fill(s, self.todo[s][0], ready_s)
            self._run(s, self.todo[s].popleft(), ready_s)
        for s, device in enumerate(self.devices):
            while device.due:
                self._run(s, device.due.popleft(), 0.0)
        return [device.lane for device in self.devices]

    def _next(self) -> tuple[int, float] | None:
        """(device, when the input of its next pass is there) of the earliest next pass; None at the end."""
        starts: list[tuple[float, int, float]] = []
        for s, todo in enumerate(self.todo):
            if todo and (ready_s := self._ready_s(s, todo[0])) is not None:
                starts.append((max(ready_s, self.devices[s].free_s), s, ready_s))
        return min(starts)[1:] if starts else None

    def _ready_s(self, s: int, step: Pass) -> float | None:
        """When the input of F or I is on device s; None while nobody knows."""
        kind, microbatch, chunk = step
        k = self.place[s, chunk]
        source = ("F", k - 1) if kind == "F" else ("I", k + 1)
        if source[1] == len(self.route):
            source = ("F", k)
        if source[1] < 0:
            return 0.0
        made_s = self.end_s.get((source[0], microbatch, source[1]))
        if made_s is None:
            return None
        return made_s + (self.delay_s if self.route[source[1]][0] != s else 0.0)

    def _fill(self, s: int, step: Pass, ready_s: float) -> None:
        """Runs the W that must, or had better, come before `step`."""
        device = self.devices[s]
        most_s = max(other.waited_s for other in self.devices)
        while device.due:
            weight_s = self.seconds["W"][s][device.due[0][2]]
            wait_s = ready_s - device.free_s
            full = step[0] == "F" and device.live == 2 * len(self.devices)
            fits = wait_s >= weight_s * (1 - 1e-9)
            leads = device.waited_s + wait_s > most_s + LEAD * weight_s
            if not (full or (wait_s > 0 and (fits or leads or wait_s >= self.patience * weight_s))):
                return
            self._run(s, device.due.popleft(), 0.0)
            if not (full or fits):
                return

    def _run(self, s: int, step: Pass, ready_s: float) -> None:
        kind, microbatch, chunk = step
        device = self.devices[s]
        if device.lane:
            device.waited_s += max(0.0, ready_s - device.free_s)
        device.free_s = max(device.free_s, ready_s) + self.seconds[kind][s][chunk]
        device.live += {"F": 1, "I": 0, "W": -1}[kind]
        device.lane.append(step)
        self.end_s[kind, microbatch, self.place[s, chunk]] = device.free_s
        if kind == "I":
            device.due.append(("W", microbatch, chunk))
