"""A captured step as a program of one rank: the host, which launches, and the streams of the card.

    launches          those of the host, one after the other; it waits where the program reads a value
    compute           kernels of the stream that the program begins in
    stream n          kernels of the other streams
    communication n   collectives

A kernel begins when it was launched, when its stream is free, and when the events that its stream waits for are done.
A collective lasts as long as the fastest way of its group on the cluster: all ranks come to it at the same time, and
kernels beside it are not slowed. Memory is that of the tensors: those that a call makes when it begins, and those that
nobody needs any more when it ends.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass, field
from lockstep.base.types.arrays import Array
from lockstep.base.types.plain import Json, picked
from lockstep.describe.captured import COLLECTIVES, POINT_TO_POINT, READ, RECORD, Captured, Operation
from lockstep.describe.hardware import Cluster
from lockstep.price.kernels.captured import Priced, priced_calls
from lockstep.simulate.parallel.group import Levels, collective_s
from lockstep.simulate.play import simulate
from lockstep.simulate.program import Program, ProgramBuilder, Timeline
from lockstep.simulate.program.timeline import LAUNCHES

COMPUTE = "compute"


@dataclass(frozen=True, slots=True)
class StepTime:
    """Seconds of a step on one device."""

    step_time_s: float
    device_s: float
    """Of kernels, if the host never falls behind."""
    products_s: float
    attention_s: float
    other_s: float
    communication_s: float
    """Of collectives, also of those beside kernels."""
    exposed_communication_s: float
    """Of collectives, while no kernel runs."""
    host_s: float
    """Of the host for all calls, those that launch nothing too."""
    kernels: int

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self)


def captured_time(captured: Captured, cluster: Cluster, priced: Priced | None = None) -> StepTime:
    """Seconds of the step on a cluster, whose calls may have been priced already.

    Raises UnknownName for products in a format that the device does not have, BadInput for messages between two ranks
    and for more ranks than the cluster has devices.
    """
    priced = priced or priced_calls(captured, cluster.device)
    timeline = simulate(captured_program(captured, cluster, priced)[0])
    whole = priced.whole
    busy_s = timeline.busy_s()
    return StepTime(
        timeline.makespan_s + priced.step_s,
        float(whole.device_s),
        float(whole.matmul_s),
        float(whole.attention_s),
        float(whole.stream_s),
        float(timeline.communicating_s[0]),
        float(timeline.exposed_s[0]),
        busy_s.get((0, LAUNCHES), 0.0),
        int(whole.kernels),
    )


def captured_timeline(captured: Captured, cluster: Cluster, priced: Priced | None = None) -> tuple[Timeline, Array]:
    """When every operation of the step starts and ends; and when each call of the capture begins, in seconds.

    A call without work begins with the one before it. Raises as `captured_time` does.
    """
    program, work = captured_program(captured, cluster, priced or priced_calls(captured, cluster.device))
    timeline = simulate(program)
    begins_s = np.where(work >= 0, timeline.start_s[work], 0.0)
    return timeline, np.maximum.accumulate(begins_s) if len(begins_s) else begins_s


def captured_program(captured: Captured, cluster: Cluster, priced: Priced) -> tuple[Program, Array]:
    """The step as a program of one rank, and which of its operations each call is; -1 before the first."""
    if captured.ranks > cluster.num_devices:
        raise BadInput(
            f"it is the step of one of {captured.ranks:,} ranks, and {cluster.name} has {cluster.num_devices:,} devices"
        )
    writer = _Writer(ProgramBuilder(1, (LAUNCHES, *_streams(captured.operations).values())), captured, cluster)
    work = []
    for at, one in enumerate(captured.operations):
        writer.write(at, one, priced)
        work.append(writer.last)
    return writer.end(), np.array(work, dtype=np.int64)


def _streams(operations: Sequence[Operation]) -> dict[int, str]:
    """Names of the streams in which there is work."""
    talks = {one.stream for one in operations if one.name in COLLECTIVES}
    found = {0: COMPUTE}
    for one in sorted({one.stream for one in operations if not one.is_order} - {0}):
        found[one] = f"communication {one}" if one in talks else f"stream {one}"
    return found


@dataclass
class _Writer:
    """What is known while the calls are written in their order."""

    builder: ProgramBuilder
    captured: Captured
    cluster: Cluster
    tails: dict[int, int] = field(default_factory=dict)
    """The last work of each stream."""
    events: dict[int, int] = field(default_factory=dict)
    """The work behind which each event stands."""
    waits: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    """The work that the next of a stream waits for."""
    host_waits: list[int] = field(default_factory=list)
    last: int = -1
    """The work that was written last."""
    late_s: float = 0.0
    """What the host does before its next launch."""
    levels: dict[str, Levels] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.streams = _streams(self.captured.operations)
        self.changes_B = self.captured.changes_B
        self.held_B = 0.0

    def write(self, at: int, one: Operation, priced: Priced) -> None:
        """Adds a call."""
        born_B, freed_B = self.changes_B[:, at]
        self.held_B += born_B
        if one.is_order:
            self._order(one)
        else:
            work = priced.works[at]
            kernels, first_s = float(work.kernels), priced.host_s(one, 1.0)
            self.late_s += first_s
            if one.name in COLLECTIVES:
                self._work(one, self._collective_s(one))
            elif kernels:
                self._work(one, float(work.device_s))
            self.late_s += priced.host_s(one, kernels) - first_s
        self.held_B -= freed_B

    def end(self) -> Program:
        """The program, with what the host does last."""
        self._host("")
        return self.builder.build()

    def _order(self, one: Operation) -> None:
        """An event, or a wait for one, which takes no time."""
        if one.name == RECORD:
            self.events[one.event] = self.tails.get(one.stream, -1)
            return
        if one.name == READ:
            self._host("")
        on = self.events.get(one.event, -1) if one.event else self.tails.get(one.stream, -1)
        if on >= 0:
            (self.host_waits if one.name == READ else self.waits[one.stream]).append(on)

    def _host(self, label: str) -> int:
        """What the host has done since its last launch, up to this one."""
        made = self.builder.compute(0, self.late_s, label=label, stream=LAUNCHES, after=self.host_waits)
        self.late_s, self.host_waits = 0.0, []
        return made

    def _work(self, one: Operation, device_s: float) -> None:
        """A launch on the host, and what is launched in its stream. Memory of calls without work is added to it."""
        label, lane = one.name.removeprefix("aten."), self.streams[one.stream]
        after, self.waits[one.stream] = [self._host(f"launch {label}"), *self.waits[one.stream]], []
        if one.name in COLLECTIVES:
            made = self.builder.collective(
                [0], one.name, one.size_B, duration_s=device_s, stream=lane, after=after, label=label
            )[0]
        else:
            made = self.builder.compute(
                0, device_s, label=label, stream=lane, after=after, flops=one.flops, memory_start_B=self.held_B
            )
            self.held_B = 0.0
        self.tails[one.stream] = self.last = made

    def _collective_s(self, one: Operation) -> float:
        """Seconds of a collective of the ranks of its group."""
        if one.name in POINT_TO_POINT:
            raise BadInput(
                "sends between two ranks: when the other comes to it stands in its own capture, so that no time can be "
                "told from this one"
            )
        if one.group not in self.levels:
            self.levels[one.group] = self.cluster.levels_between(self.captured.groups[one.group])
        return float(collective_s(one.name, self.levels[one.group], one.size_B))
