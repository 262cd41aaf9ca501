"""`Filling`: where the weight gradients of two chunks in a V go, given the order of forward and input-gradient passes.

Before its next F or I a device runs the oldest W
    as long as a whole one fits before the input arrives, or the next pass is an F and the memory is full (activations
    held until W),
    and once more if the wait that is left is `patience` of a W or more, or would make this device the one that has
    waited longest, by more than `LEAD` of a W: the longest waiting device sets the pace, so waits are shared out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from lockstep.base.records import dataclass, field
from lockstep.base.types.arrays import Array
from lockstep.simulate.parallel.pipeline.construct import routes
from lockstep.simulate.parallel.pipeline.schedule import Order, Pass, Placement

LEAD = 0.25


@dataclass(slots=True)
class _Device:
    """State of a device: when it is free, how long it waited since its first pass and worked, how many chunks'
    activations it holds, which W are due, what it did.
    """

    free_s: float = 0.0
    waited_s: float = 0.0
    worked_s: float = 0.0
    live: int = 0
    due: deque[Pass] = field(default_factory=deque)
    lane: list[Pass] = field(default_factory=list)


class Filling:
    """One run with one patience: the device whose next F or I can start first goes on."""

    def __init__(
        self, hand_made: Order, seconds: Mapping[str, Array], delay_s: float, patience: float, most: int
    ) -> None:
        """`hand_made` has no W, `seconds` are of a pass [devices, chunks]; at most `most` chunks are held."""
        stages = len(hand_made)
        self.todo = [deque(lane) for lane in hand_made]
        self.route = routes(Placement.VEE, stages, 2)[0]
        self.place = {where: k for k, where in enumerate(self.route)}
        self.seconds = {step: values.tolist() for step, values in seconds.items()}
        self.delay_s, self.patience, self.most = delay_s, patience, most
        self.devices = [_Device() for _ in range(stages)]
        self.end_s: dict[tuple[str, int, int], float] = {}

    @property
    def stage_s(self) -> float:
        """Longest time of a device from its first start to its last end."""
        return max(device.worked_s + device.waited_s for device in self.devices)

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
        """When the input of F or I is on device s; None while that is unknown."""
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
            full = step[0] == "F" and device.live == self.most
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
        device.worked_s += self.seconds[kind][s][chunk]
        device.live += {"F": 1, "I": 0, "W": -1}[kind]
        device.lane.append(step)
        self.end_s[kind, microbatch, self.place[s, chunk]] = device.free_s
        if kind == "I":
            device.due.append(("W", microbatch, chunk))
