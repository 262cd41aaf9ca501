"""From the order of a schedule to a `Program`: one function for all schedules.

Every pass is a compute operation on lane `compute` of its device. F waits for F of the virtual stage before, B and I
for F of the same virtual stage and the backward pass of the one behind, W for its I. Between devices the dependency
is a message, on a lane of its own per kind of pass and chunk, so that messages of one kind and pair of devices
follow one another and nothing else queues. Overlapped messages take `transfer_s`; blocking ones take no time on
their lanes, and every F, B and I is followed by an exchange that holds the device `transfer_s`. With
`priced_by_link` messages have no time of their own: the link given to `simulate` prices their bytes.

Memory: F adds `activation_B / v` when it starts, B or W frees it when it ends; with `activation_B = 1` the peak is the
number of live micro-batches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lockstep.errors import BadInput
from lockstep.pipelines.schedule import Order, Pass, Placement, Schedule
from lockstep.pipelines.times import Array, Times
from lockstep.program import Program, ProgramBuilder

Where = tuple[int, int]  # (device, chunk)
BACKWARDS = ("B", "I")


def routes(placement: Placement, stages: int, chunks: int) -> tuple[tuple[Where, ...], ...]:
    """The ways through the devices: one, or two when copies of the model run in both directions."""
    devices = range(stages)
    if placement is Placement.LOOPED:
        return (tuple((s, c) for c in range(chunks) for s in devices),)
    down, up = tuple((s, 0) for s in devices), tuple((s, 1) for s in reversed(devices))
    return (down + up,) if placement is Placement.VEE else (down, up)


def pass_seconds(schedule: Schedule, stages: int, chunks: int, times: Times) -> dict[str, Array]:
    """Seconds of each kind of pass, arrays (device, chunk). Times may have one value per device."""
    shares = 1 if schedule.placement is Placement.BOTH_WAYS else chunks
    forward_s, backward_s, frac = (
        np.repeat(np.broadcast_to(np.asarray(value, dtype=float), (stages,))[:, None], chunks, axis=1)
        for value in (times.forward_s, times.backward_s, times.weight_frac)
    )
    forward_s, backward_s = forward_s / shares, backward_s / shares
    for route in routes(schedule.placement, stages, chunks):
        forward_s[route[0]] += times.first_forward_s
        backward_s[route[0]] += times.first_backward_s
        forward_s[route[-1]] += times.last_forward_s
        backward_s[route[-1]] += times.last_backward_s
    return {"F": forward_s, "B": backward_s, "I": backward_s * (1 - frac), "W": backward_s * frac}


def program(
    schedule: Schedule,
    stages: int,
    microbatches: int,
    *,
    times: Times,
    chunks: int | None = None,
    message_B: float = 0.0,
    activation_B: float = 1.0,
    priced_by_link: bool = False,
) -> Program:
    """One step of a pipeline as a program; forward_s, backward_s and weight_s may have one value per device.

    `message_B` is the size of the activations (and of their gradients) between two virtual stages.
    """
    chunks = check(schedule, stages, microbatches, chunks)
    order = schedule.order(stages, microbatches, chunks)
    sizes = {"message_B": message_B, "activation_B": activation_B}
    return program_of(schedule, order, chunks, times, **sizes, priced_by_link=priced_by_link)


def check(schedule: Schedule, stages: int, microbatches: int, chunks: int | None) -> int:
    """The number of chunks, after refusing numbers the schedule does not exist for."""
    number = chunks or schedule.num_chunks or 2
    if not bool(schedule.valid(stages, microbatches, number)):
        given = f"stages={stages}, microbatches={microbatches}, chunks={number}"
        raise BadInput(f"{schedule.name} cannot run with {given}: {schedule.rule}")
    return number


def program_of(
    schedule: Schedule,
    order: Order,
    chunks: int,
    times: Times,
    *,
    message_B: float = 0.0,
    activation_B: float = 1.0,
    priced_by_link: bool = False,
) -> Program:
    """The program of any order with the placement of `schedule`."""
    stages = len(order)
    work = _Work(schedule, stages, chunks, order)
    seconds = pass_seconds(schedule, stages, chunks, times)
    hold_s = float(times.transfer_s) if times.blocking and stages > 1 and not priced_by_link else 0.0
    builder = ProgramBuilder(stages, ("compute", *_message_lanes(chunks)))
    held = activation_B / (1 if schedule.placement is Placement.BOTH_WAYS else chunks)
    for device, lane in enumerate(order):
        for step, i, chunk in lane:
            last = work.add(builder, device, (step, i, chunk), seconds[step][device, chunk], held)
            if hold_s and step != "W":
                last = builder.compute(device, hold_s, label="exchange")
            work.ready[work.key(device, step, i, chunk)] = last
    transfer_s = 0.0 if times.blocking else float(times.transfer_s)
    work.connect(builder, message_B, {} if priced_by_link else {"duration_s": transfer_s})
    return builder.build()


def _message_lanes(chunks: int) -> list[str]:
    return [f"{way} {step}{c}" for c in range(chunks) for step in "FB" for way in ("send", "recv")]


@dataclass(slots=True)
class _Work:
    """Where every pass is in the program and on its route."""

    schedule: Schedule
    stages: int
    chunks: int
    order: Order
    start: dict[tuple[str, int, Where], int] = field(default_factory=dict)
    ready: dict[tuple[str, int, Where], int] = field(default_factory=dict)
    neighbour: Mapping[Where, tuple[Where | None, Where | None]] = field(init=False)

    def __post_init__(self) -> None:
        self.neighbour = {
            where: (route[k - 1] if k else None, route[k + 1] if k + 1 < len(route) else None)
            for route in routes(self.schedule.placement, self.stages, self.chunks)
            for k, where in enumerate(route)
        }

    @staticmethod
    def key(device: int, step: str, microbatch: int, chunk: int) -> tuple[str, int, Where]:
        """Name of a pass; a whole backward and its input part stand in for one another."""
        return ("B" if step in BACKWARDS else step, microbatch, (device, chunk))

    def add(self, builder: ProgramBuilder, device: int, what: Pass, time_s: float, held_B: float) -> int:
        """Adds one pass with its memory."""
        step, i, chunk = what
        label = f"{step}{i}" if self.chunks == 1 else f"{step}{i}.{chunk}"
        grows, frees = held_B if step == "F" else 0.0, -held_B if step in ("B", "W") else 0.0
        number = builder.compute(device, float(time_s), label=label, memory_start_B=grows, memory_B=frees)
        self.start[self.key(device, step, i, chunk)] = number
        return number

    def connect(self, builder: ProgramBuilder, message_B: float, options: dict[str, Any]) -> None:
        """Adds messages, in the order in which either side makes or needs them, and all dependencies."""
        sent, received = {}, {}
        for device, lane in enumerate(self.order):
            for step, i, chunk in lane:
                if step == "W":
                    builder.depend(self.start[self.key(device, "W", i, chunk)], self.ready["B", i, (device, chunk)])
                    continue
                kind, _, here = key = self.key(device, step, i, chunk)
                before, behind = self.neighbour[here][:: 1 if kind == "F" else -1]
                if kind == "B":
                    builder.depend(self.start[key], self.ready["F", i, here])
                if before is not None and before[0] == device:
                    builder.depend(self.start[key], self.ready[kind, i, before])
                elif before is not None:
                    received[kind, i, here] = (before, key)
                if behind is not None and behind[0] != device:
                    sent[kind, i, here] = behind
        self._messages(builder, sent, received, message_B, options)

    def _messages(
        self,
        builder: ProgramBuilder,
        sent: dict[tuple[str, int, Where], Where],
        received: dict[tuple[str, int, Where], tuple[Where, tuple[str, int, Where]]],
        message_B: float,
        options: dict[str, Any],
    ) -> None:
        """Sends in the order they are made, receives in the order they are needed; one tag per kind and chunk."""
        for (kind, i, here), there in sent.items():
            builder.send(
                here[0], there[0], message_B, tag=2 * here[1] + (kind == "B"), stream=f"send {kind}{here[1]}",
                after=self.ready[kind, i, here], label=f"{kind}{i}", **options,
            )  # fmt: skip
        for (kind, i, here), (before, key) in received.items():
            number = builder.recv(
                here[0], before[0], message_B, tag=2 * before[1] + (kind == "B"), stream=f"recv {kind}{before[1]}",
                label=f"{kind}{i}", **options,
            )  # fmt: skip
            builder.depend(self.start[key], number)
