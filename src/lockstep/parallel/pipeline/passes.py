"""The operations of passes on the lanes of their devices: one after another, or a forward and a backward one as a cell.

A pass alone computes and then waits for its traffic. In a cell both compute in turn on lane `compute` while the traffic
of both runs on lane `comm`; the cell starts when both have their inputs, and both are done when it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from lockstep.parallel.pipeline.schedule import Cells, Order, Pass
from lockstep.parallel.pipeline.times import Array
from lockstep.parallel.script import COMPUTE, Op, Script, Writer
from lockstep.program import Kind, ProgramBuilder
from lockstep.simulate import Progress, unseen

Where = tuple[int, int]  # (device, chunk)
Key = tuple[str, int, Where]  # (kind of pass, micro-batch, where)
COMM = "comm"
TRAFFIC, EXCHANGE, CELL, JOIN = "all-to-all", "exchange", "cell", "join"


class Scripts(Protocol):
    """What passes do on their device: kernels, traffic, and what waits for what."""

    def alone(self, device: int, one: Pass) -> Script:
        """The operations of a pass."""

    def together(self, device: int, pair: Sequence[Pass]) -> Script:
        """The operations of a forward and a backward pass in one cell."""


@dataclass(frozen=True, slots=True)
class PassTimes:
    """The simplest `Scripts`: seconds of passes by kind, arrays (device, chunk), and what a cell makes of two."""

    seconds: dict[str, Array]
    comm: dict[str, Array]
    """Of these, traffic."""
    device_frac: float
    """Share of the device's arithmetic that traffic beside computing takes."""
    hold_s: float
    """Time that a message holds its device."""

    def alone(self, device: int, one: Pass) -> Script:
        """A pass that waits for its traffic."""
        step, _, chunk = one
        comm_s = float(self.comm[step][device, chunk])
        writer = Writer()
        writer.op(Op(COMPUTE, float(self.seconds[step][device, chunk]) - comm_s))
        if comm_s:
            writer.op(Op(COMPUTE, comm_s, op=TRAFFIC))
        if self.hold_s and step != "W":
            writer.op(Op(COMPUTE, self.hold_s, op=EXCHANGE))
        return writer.script

    def together(self, device: int, pair: Sequence[Pass]) -> Script:
        """A cell. Each pass computes beside the traffic of the other."""
        comm_s = [float(self.comm[step][device, chunk]) for step, _, chunk in pair]
        seconds = [float(self.seconds[step][device, chunk]) for step, _, chunk in pair]
        writer = Writer()
        if traffic_s := sum(comm_s):
            start = writer.op(Op(COMPUTE, 0.0, op=CELL))
        for of, own_s, mine_s, other_s in zip((0, 1), seconds, comm_s, comm_s[::-1], strict=True):
            writer.op(Op(COMPUTE, own_s - mine_s + self.device_frac * other_s, of=of))
        if traffic_s:
            writer.front += writer.add(Op(COMM, traffic_s, op=TRAFFIC), start)
            writer.op(Op(COMPUTE, 0.0, op=CELL))
        if self.hold_s:
            writer.op(Op(COMPUTE, 2 * self.hold_s, op=EXCHANGE))
        return writer.script


@dataclass(slots=True)
class _Lanes:
    """Operations gathered row by row, and what each of them waits for."""

    builder: ProgramBuilder
    chunks: int
    held_B: Sequence[float]
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    waits: list[tuple[int, int]] = field(default_factory=list)
    groups: int = 0
    first: int = 0
    ends: tuple[int, ...] = ()
    """What the device's next pass waits for."""

    def add(self, device: int, script: Script, passes: Sequence[Pass]) -> tuple[int, int, list[int]]:
        """Adds the operations of `passes` on `device`: the first, the one that ends them, and the late ones."""
        first, compute = self.first + len(self.rows), self.builder.stream(COMPUTE)
        grows, frees = self._memory(script, passes)
        for place, op in enumerate(script.ops):
            lane = compute if op.lane == COMPUTE else self.builder.stream(op.lane)
            grown_B, freed_B = (self.held_B[device] * ((place in held) - 0.0) for held in (grows, frees))
            if op.op:
                name, kind, group = self.builder.name(op.op), Kind.COLLECTIVE, self.groups
                label = self.builder.name(op.label or f"{op.group} {op.op}".strip())
                self.groups += 1
            else:
                name, kind, group, label = -1, Kind.COMPUTE, -1, self._label(op, passes)
            self.rows.append((kind, device, op.seconds, label, grown_B, -freed_B, group, name, lane, op.size_B))
            behind = [first + i for i in op.after] if op.after or place else self.ends
            self.waits += [(first + place, other) for other in behind if self._apart(first + place, other)]
        last = self._join(device, [first + i for i in script.ends])
        self.ends = (last,)
        return first, last, [first + i for i in script.late]

    def _memory(self, script: Script, passes: Sequence[Pass]) -> tuple[set[int], set[int]]:
        """Places where activations begin to be held, and where they are freed."""
        grows, frees = set(), set()
        for of, (step, _, _) in enumerate(passes):
            computing = [i for i, op in enumerate(script.ops) if op.of == of and not op.op]
            if step == "F":
                grows.add(computing[0])
            elif step in "BW":
                frees.add(computing[-1])
        return grows, frees

    def _label(self, op: Op, passes: Sequence[Pass]) -> int:
        step, i, chunk = passes[op.of]
        layer = f" layer {op.layer}" if op.layer else ""
        return self.builder.name(op.label or (f"{step}{i}.{chunk}" if self.chunks > 1 else f"{step}{i}") + layer)

    def _apart(self, one: int, other: int) -> bool:
        """Whether an operation follows an earlier one of its device only if it is told so."""
        return bool(self.rows[one - self.first][8] != self.rows[other - self.first][8])

    def _join(self, device: int, ends: list[int]) -> int:
        """One operation behind all of `ends`."""
        if len(ends) == 1:
            return ends[0]
        name, lane = self.builder.name(JOIN), self.builder.stream(COMPUTE)
        self.rows.append((Kind.COLLECTIVE, device, 0.0, name, 0.0, 0.0, self.groups, name, lane, 0.0))
        self.groups += 1
        last = self.first + len(self.rows) - 1
        self.waits += [(last, end) for end in ends]
        return last

    def write(self) -> None:
        """Hands everything to the builder."""
        names = (
            "kind",
            "rank",
            "duration_s",
            "label",
            "memory_start_B",
            "memory_end_B",
            "group",
            "op",
            "stream",
            "size_B",
        )
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
    scripts: Scripts,
    chunks: int,
    held_B: Sequence[float],
    progress: Progress = unseen,
) -> tuple[dict[Key, int], dict[Key, int], list[list[int]]]:
    """Adds all passes; returns what starts each of them, what ends it, and by device what only the step waits for.

    `progress` hears of devices: half of the work on each, as their dependencies follow.
    """
    lanes = _Lanes(builder, chunks, held_B, first=len(builder))
    start: dict[Key, int] = {}
    ready: dict[Key, int] = {}
    late: list[list[int]] = []
    for device, lane in enumerate(order):
        lanes.ends = ()
        late.append([])
        for together in _together(lane, cells[device] if cells else frozenset()):
            found = scripts.together(device, together) if len(together) == 2 else scripts.alone(device, together[0])
            first, last, after = lanes.add(device, found, together)
            late[-1] += after
            for step, i, chunk in together:
                key = (kind_of(step), i, (device, chunk))
                start[key], ready[key] = first, last
        progress(device + 1, 2 * len(order))
    lanes.write()
    return start, ready, late


def _together(lane: list[Pass], cells: frozenset[int]) -> Iterator[list[Pass]]:
    """The passes of a device, those of a cell together."""
    at = 0
    while at < len(lane):
        stop = at + 1 + (at in cells)
        yield lane[at:stop]
        at = stop
