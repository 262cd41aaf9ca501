"""The operations of passes on the lanes of their devices: one after another, or a forward and a backward one as a cell.

A pass alone computes and then waits for its traffic. In a cell both compute in turn on lane `compute` while the traffic
of both runs on lane `comm`; the cell starts when both have their inputs, and both are done when it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lockstep.parallel.pipeline.schedule import Cells, Order, Pass
from lockstep.parallel.pipeline.times import Array
from lockstep.program import Kind, ProgramBuilder
from lockstep.simulate import Progress, unseen

Where = tuple[int, int]  # (device, chunk)
Key = tuple[str, int, Where]  # (kind of pass, micro-batch, where)
COMM = "comm"
TRAFFIC, EXCHANGE, CELL = "all-to-all", "exchange", "cell"


@dataclass(frozen=True, slots=True)
class PassTimes:
    """Seconds of passes by kind, arrays (device, chunk), and what a cell makes of two of them."""

    seconds: dict[str, Array]
    comm: dict[str, Array]
    """Of these, traffic."""
    device_frac: float
    """Share of the device's arithmetic that traffic beside computing takes."""
    hold_s: float
    """Time that a message holds its device."""


@dataclass(slots=True)
class _Lanes:
    """Operations gathered row by row, and what each of them waits for."""

    builder: ProgramBuilder
    chunks: int
    held_B: float
    rows: list[tuple[int, int, float, int, float, float, int, int, int]] = field(default_factory=list)
    waits: list[tuple[int, int]] = field(default_factory=list)
    groups: int = 0
    first: int = 0

    def compute(self, device: int, one: Pass, duration_s: float) -> int:
        """One pass, with the activations that it makes or frees."""
        step, i, chunk = one
        label = self.builder.name(f"{step}{i}.{chunk}" if self.chunks > 1 else f"{step}{i}")
        grows_B, frees_B = self.held_B if step == "F" else 0.0, -self.held_B if step in "BW" else 0.0
        lane = self.builder.stream("compute")
        self.rows.append((Kind.COMPUTE, device, duration_s, label, grows_B, frees_B, -1, -1, lane))
        return self.last

    def wait(self, device: int, op: str, duration_s: float, stream: str = "compute") -> int:
        """Something that is not computing: traffic, messages, the edges of a cell."""
        name, lane = self.builder.name(op), self.builder.stream(stream)
        self.rows.append((Kind.COLLECTIVE, device, duration_s, name, 0.0, 0.0, self.groups, name, lane))
        self.groups += 1
        return self.last

    @property
    def last(self) -> int:
        """The operation added last."""
        return self.first + len(self.rows) - 1

    def write(self) -> None:
        """Hands everything to the builder."""
        names = ("kind", "rank", "duration_s", "label", "memory_start_B", "memory_end_B", "group", "op", "stream")
        columns: dict[str, Any] = dict(zip(names, map(np.array, zip(*self.rows, strict=True)), strict=True))
        self.builder.extend(**columns)
        if self.waits:
            self.builder.depend(*np.array(self.waits).T)


def kind_of(step: str) -> str:
    """F, B or W: a whole backward pass and its input part stand in for one another."""
    return "B" if step == "I" else step


def add_passes(
    builder: ProgramBuilder,
    order: Order,
    cells: Cells | None,
    times: PassTimes,
    held_B: float,
    progress: Progress = unseen,
) -> tuple[dict[Key, int], dict[Key, int]]:
    """Adds all passes; returns the operation that starts each pass and the one that ends it.

    `progress` hears of devices: half of the work on each, as their dependencies follow.
    """
    lanes = _Lanes(builder, len(times.seconds["F"][0]), held_B, first=len(builder))
    start: dict[Key, int] = {}
    ready: dict[Key, int] = {}
    for device, lane in enumerate(order):
        for together in _together(lane, cells[device] if cells else frozenset()):
            edges = (
                _pair(lanes, device, together, times)
                if len(together) == 2
                else _single(lanes, device, together[0], times)
            )
            for step, i, chunk in together:
                key = (kind_of(step), i, (device, chunk))
                start[key], ready[key] = edges
        progress(device + 1, 2 * len(order))
    lanes.write()
    return start, ready


def _together(lane: list[Pass], cells: frozenset[int]) -> Iterator[list[Pass]]:
    """The passes of a device, those of a cell together."""
    at = 0
    while at < len(lane):
        stop = at + 1 + (at in cells)
        yield lane[at:stop]
        at = stop


def _single(lanes: _Lanes, device: int, one: Pass, times: PassTimes) -> tuple[int, int]:
    """A pass that waits for its traffic; returns its first and last operation."""
    step, _, chunk = one
    comm_s = float(times.comm[step][device, chunk])
    first = last = lanes.compute(device, one, float(times.seconds[step][device, chunk]) - comm_s)
    if comm_s:
        last = lanes.wait(device, TRAFFIC, comm_s)
    if times.hold_s and step != "W":
        last = lanes.wait(device, EXCHANGE, times.hold_s)
    return first, last


def _pair(lanes: _Lanes, device: int, pair: list[Pass], times: PassTimes) -> tuple[int, int]:
    """A cell: its first and last operation. Each pass computes beside the traffic of the other."""
    comm_s = [float(times.comm[step][device, chunk]) for step, _, chunk in pair]
    compute_s = [
        float(times.seconds[step][device, chunk]) - x for (step, _, chunk), x in zip(pair, comm_s, strict=True)
    ]
    traffic_s = sum(comm_s)
    first = lanes.wait(device, CELL, 0.0) if traffic_s else lanes.last + 1
    for one, own_s, other_s in zip(pair, compute_s, comm_s[::-1], strict=True):
        last = lanes.compute(device, one, own_s + times.device_frac * other_s)
    if traffic_s:
        traffic = lanes.wait(device, TRAFFIC, traffic_s, COMM)
        last = lanes.wait(device, CELL, 0.0)
        lanes.waits += [(traffic, first), (last, traffic)]
    if times.hold_s:
        last = lanes.wait(device, EXCHANGE, 2 * times.hold_s)
    return first, last
