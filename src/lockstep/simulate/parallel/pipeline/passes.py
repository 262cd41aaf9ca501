"""The operations of passes on the lanes of their devices: one after another, or a forward and a backward one as a cell.

A pass alone computes and then waits for its traffic. In a cell both compute in turn on lane `compute` while the traffic
of both runs on lane `comm`; the cell starts when both have their inputs, and both are done when it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np

from lockstep.base.records import dataclass, field
from lockstep.base.types.arrays import Array
from lockstep.base.types.plain import Json
from lockstep.base.types.progress import Progress
from lockstep.simulate.parallel.lanes import COMM, COMPUTE, Op
from lockstep.simulate.parallel.pipeline.schedule import Cells, Order, Pass
from lockstep.simulate.parallel.script import Script
from lockstep.simulate.play import unseen
from lockstep.simulate.program import Kind, ProgramBuilder

Where = tuple[int, int]  # (device, chunk)
Key = tuple[str, int, Where]  # (kind of pass, micro-batch, where)
TRAFFIC, EXCHANGE, CELL, JOIN = "all-to-all", "exchange", "cell", "join"
COLUMNS = (
    "kind", "rank", "stream", "duration_s", "op", "label", "size_B", "memory_start_B", "memory_end_B", "group",
)  # fmt: skip
LANE = COLUMNS.index("stream")


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
    known: dict[tuple[str, int, int], Script] = field(default_factory=dict)
    """Passes by kind and place: they are alike for all micro-batches."""

    def alone(self, device: int, one: Pass) -> Script:
        """A pass that waits for its traffic."""
        key = one[0], device, one[2]
        if key not in self.known:
            self.known[key] = self._pass(*key)
        return self.known[key]

    def _pass(self, step: str, device: int, chunk: int) -> Script:
        comm_s = float(self.comm[step][device, chunk])
        script = Script()
        script.op(Op(COMPUTE, float(self.seconds[step][device, chunk]) - comm_s))
        if comm_s:
            script.op(Op(COMPUTE, comm_s, op=TRAFFIC))
        if self.hold_s and step != "W":
            script.op(Op(COMPUTE, self.hold_s, op=EXCHANGE))
        return script

    def together(self, device: int, pair: Sequence[Pass]) -> Script:
        """A cell. Each pass computes beside the traffic of the other."""
        comm_s = [float(self.comm[step][device, chunk]) for step, _, chunk in pair]
        seconds = [float(self.seconds[step][device, chunk]) for step, _, chunk in pair]
        script = Script()
        if traffic_s := sum(comm_s):
            start = script.op(Op(COMPUTE, 0.0, op=CELL))
        for of, own_s, mine_s, other_s in zip((0, 1), seconds, comm_s, comm_s[::-1], strict=True):
            script.of = of
            script.op(Op(COMPUTE, own_s - mine_s + self.device_frac * other_s))
        if traffic_s:
            script.ends += script.add(Op(COMM, traffic_s, op=TRAFFIC), start)
            script.op(Op(COMPUTE, 0.0, op=CELL))
        if self.hold_s:
            script.op(Op(COMPUTE, 2 * self.hold_s, op=EXCHANGE))
        return script


@dataclass(slots=True)
class _Lanes:
    """Adds the scripts of passes to a builder, device by device."""

    builder: ProgramBuilder
    chunks: int
    held_B: Array
    """[devices, chunks]"""
    first: int
    rows: list[tuple[object, ...]] = field(default_factory=list)
    waits: list[tuple[int, int]] = field(default_factory=list)
    groups: int = 0
    ends: tuple[int, ...] = ()
    """What the device's next pass waits for."""

    def add(self, device: int, script: Script, passes: Sequence[Pass]) -> tuple[int, int, list[int]]:
        """Adds the operations of `passes` on `device`: the first, the one that ends them, and the late ones."""
        first, held_B = self.first + len(self.rows), self._held_B(script, passes, self.held_B[device].tolist())
        for place, op in enumerate(script.ops):
            here = self._put(device, op, self._label(op, passes), held_B.get(place, 0.0))
            behind = [first + i for i in op.after] if op.after or place else self.ends
            self.waits += [(here, other) for other in behind if self._apart(here, other)]
        self.ends = tuple(first + i for i in script.ends)
        if len(self.ends) > 1:
            last = self._put(device, Op(COMPUTE, 0.0, op=JOIN), JOIN)
            self.waits += [(last, end) for end in self.ends]
            self.ends = (last,)
        return first, self.ends[0], [first + i for i in script.late]

    def _held_B(self, script: Script, passes: Sequence[Pass], each_B: Sequence[float]) -> dict[int, float]:
        """By place, activations that begin to be held there, or (negative) are freed."""
        found = {}
        for of, (step, _, chunk) in enumerate(passes):
            computing = [i for i, op in enumerate(script.ops) if op.of == of and not op.op]
            if step == "F":
                found[computing[0]] = each_B[chunk]
            elif step in "BW":
                found[computing[-1]] = -each_B[chunk]
        return found

    def _label(self, op: Op, passes: Sequence[Pass]) -> str:
        if op.label or op.op:
            return op.label or f"{op.group} {op.op}".strip()
        step, i, chunk = passes[op.of]
        name = f"{step}{i}.{chunk}" if self.chunks > 1 else f"{step}{i}"
        return f"{name} layer {op.layer}" if op.layer else name

    def _apart(self, one: int, other: int) -> bool:
        """Whether an operation follows an earlier one of its device only by an explicit dependency."""
        return bool(self.rows[one - self.first][LANE] != self.rows[other - self.first][LANE])

    def _put(self, device: int, op: Op, label: str, held_B: float = 0.0) -> int:
        """One operation of one device; its traffic takes the time given."""
        name, lane = self.builder.name, self.builder.stream(op.lane)
        kind, group = (Kind.COLLECTIVE, self.groups) if op.op else (Kind.COMPUTE, -1)
        taken_B, freed_B = max(held_B, 0.0), min(held_B, 0.0)
        row = (kind, device, lane, op.seconds, name(op.op), name(label), op.size_B, taken_B, freed_B, group)
        self.rows.append(row)
        self.groups += bool(op.op)
        return self.first + len(self.rows) - 1

    def write(self) -> None:
        """Hands everything to the builder, at once."""
        columns: Json = dict(zip(COLUMNS, map(np.array, zip(*self.rows, strict=True)), strict=True))
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
    held_B: Array,
    progress: Progress = unseen,
) -> tuple[dict[Key, int], dict[Key, int], list[list[int]]]:
    """Adds all passes; returns what starts each of them, what ends it, and by device what only the step waits for.

    `progress` hears of devices: half of the work on each, as their dependencies follow.
    """
    lanes = _Lanes(builder, chunks, held_B, len(builder))
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
