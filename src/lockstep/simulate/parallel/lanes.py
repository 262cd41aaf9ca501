"""Operations on the lanes of a device: when they run, and as a program of equal devices.

Work on a lane runs in the order listed. Two lanes of one device, computing and communicating, share its cores: while a
collective is under way, computing proceeds at `efficiency` times its rate (1 = no interference), as the collective
occupies some multiprocessors and part of the memory bandwidth. Collectives are not slowed.

`run` is exact: with efficiency 1 one pass of  end = max(end of the lane, ends waited for) + seconds  (arrays welcome),
below 1 a simulation from event to event, where the rate changes.

Source of the effect: S. Rashidi et al., "Enabling compute-communication overlap in distributed deep learning training
platforms", ISCA 2021, section 3 (measured slowdown of kernels beside collectives).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Number
from lockstep.base.types.plain import Json
from lockstep.simulate.program import Kind, Program, ProgramBuilder

COMPUTE, COMM = "compute", "comm"


@dataclass(frozen=True, slots=True)
class Op:
    """Work on one lane. Without `op` it computes; `op` and `size_B` name its collective."""

    lane: str
    seconds: Number
    after: tuple[int, ...] = ()
    """Places of the earlier operations that it waits for, beside the one before it on its lane."""
    op: str = ""
    group: str = ""
    size_B: float = 0.0
    label: str = ""
    """What it is called; without, as its pass or its group and collective."""
    held_B: float = 0.0
    """Memory taken from its start on (negative: given back at its end)."""
    of: int = 0
    """Which pass of a cell it belongs to."""
    layer: int = 0
    """Which layer of the pass, counted from 1; 0 for all."""


def run(ops: Sequence[Op], efficiency: float = 1.0) -> tuple[Sequence[Number], Sequence[Number]]:
    """(start, end) of every operation in seconds."""
    check_efficiency(efficiency)
    if efficiency < 1:
        return _events(ops, efficiency)
    start: list[Number] = []
    end: list[Number] = []
    lane_end: Json = {}
    for op in ops:
        begin = lane_end.get(op.lane, 0.0)
        for other in op.after:
            begin = np.maximum(begin, end[other])
        start.append(begin)
        end.append(begin + op.seconds)
        lane_end[op.lane] = end[-1]
    return start, end


def check_efficiency(efficiency: float) -> None:
    """BadInput unless 0 < efficiency <= 1."""
    if not 0 < efficiency <= 1:
        raise BadInput(f"overlap efficiency must be above 0 and at most 1, got {efficiency}", "efficiency")


def _events(ops: Sequence[Op], efficiency: float) -> tuple[list[float], list[float]]:
    """The same with one number per operation, from event to event."""
    start, end = [0.0] * len(ops), [0.0] * len(ops)
    left_s = [float(op.seconds) for op in ops]
    waiting = {lane: deque(i for i, op in enumerate(ops) if op.lane == lane) for lane in (COMPUTE, COMM)}
    running: dict[str, int] = {}
    finished: set[int] = set()
    now_s = 0.0
    while len(finished) < len(ops):
        for lane, queue in waiting.items():
            if queue and lane not in running and finished.issuperset(ops[queue[0]].after):
                running[lane] = queue.popleft()
                start[running[lane]] = now_s
        beside = COMM in running and left_s[running[COMM]] > 0
        rate = {COMPUTE: efficiency if beside else 1.0, COMM: 1.0}
        step_s, first, lane = min((left_s[i] / rate[lane], i, lane) for lane, i in running.items())
        now_s += step_s
        for other, i in running.items():
            left_s[i] -= step_s * rate[other]
        end[first] = now_s
        finished.add(running.pop(lane))
    return start, end


def program_of(ops: Sequence[Op], ranks: int, algorithm: str = "", efficiency: float = 1.0) -> Program:
    """The operations on `ranks` equal devices. Collectives are one operation each, for the simulator to price.

    With efficiency 1 computations last as given; below 1 as long as they do beside the collectives, so that the program
    takes the time that `run` says.
    """
    start, end = run(ops, efficiency)
    builder, devices = ProgramBuilder(ranks, (COMPUTE, COMM)), np.arange(ranks)
    ids = []
    for op, begin_s, end_s in zip(ops, start, end, strict=True):
        memory = {"memory_start_B": max(op.held_B, 0.0), "memory_end_B": min(op.held_B, 0.0)}
        columns = {"stream": op.lane, "label": op.label, **memory}
        if op.size_B:
            columns |= {"group": 0, "op": op.op, "algorithm": algorithm, "size_B": op.size_B}
        else:
            columns["duration_s"] = op.seconds if efficiency == 1 else end_s - begin_s
        ids.append(builder.extend(Kind.COLLECTIVE if op.size_B else Kind.COMPUTE, devices, **columns))
        for other in op.after:
            builder.depend(ids[-1], ids[other])
    return builder.build()
