"""Two lanes of one device, computing and communicating, that share its cores.

While a collective is under way, computing proceeds at `efficiency` times its rate (1 = no interference): the collective
occupies some multiprocessors and part of the memory bandwidth. Collectives are not slowed. Work on a lane runs in the
order listed.

`run` is exact: with efficiency 1 one pass of  end = max(end of the lane, ends waited for) + seconds  (arrays welcome),
below 1 a simulation from event to event, where the rate changes.

Source of the effect: S. Rashidi et al., "Enabling compute-communication overlap in distributed deep learning training
platforms", ISCA 2021, section 3 (measured slowdown of kernels beside collectives).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lockstep.errors import BadInput
from lockstep.program import Kind, Program, ProgramBuilder

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Task:
    """Work on one lane. `op` and `size_B` name its collective; without `op` it computes."""

    label: str
    seconds: Any
    after: tuple[int, ...] = ()
    op: str = ""
    size_B: float = 0.0
    held_B: float = 0.0
    """Memory taken from the start of this task on (negative: given back at its end)."""

    @property
    def computes(self) -> bool:
        """Whether it runs on the compute lane."""
        return not self.op


def run(tasks: Sequence[Task], efficiency: float = 1.0) -> tuple[list[Any], list[Any]]:
    """(start, end) of every task in seconds; tasks wait for earlier ones only."""
    check_efficiency(efficiency)
    if efficiency < 1:
        return _events(tasks, efficiency)
    start: list[Any] = []
    end: list[Any] = []
    lane_end: dict[bool, Any] = {True: 0.0, False: 0.0}
    for task in tasks:
        begin = lane_end[task.computes]
        for other in task.after:
            begin = np.maximum(begin, end[other])
        start.append(begin)
        end.append(begin + task.seconds)
        lane_end[task.computes] = end[-1]
    return start, end


def check_efficiency(efficiency: float) -> None:
    """BadInput unless 0 < efficiency <= 1."""
    if not 0 < efficiency <= 1:
        raise BadInput(f"overlap efficiency must be above 0 and at most 1, got {efficiency}", "efficiency")


def _events(tasks: Sequence[Task], efficiency: float) -> tuple[list[float], list[float]]:
    """The same with one number per task, from event to event."""
    start, end = [0.0] * len(tasks), [0.0] * len(tasks)
    finished = [False] * len(tasks)
    waiting = [[i for i, t in enumerate(tasks) if t.computes is lane] for lane in (True, False)]
    left_s: dict[int, float] = {}
    now_s = 0.0
    while any(waiting) or left_s:
        for queue in waiting:
            idle = not any(tasks[i].computes is tasks[queue[0]].computes for i in left_s) if queue else False
            if idle and all(finished[j] for j in tasks[queue[0]].after):
                i = queue.pop(0)
                start[i], left_s[i] = now_s, float(tasks[i].seconds)
        beside = any(not tasks[i].computes and left_s[i] > 0 for i in left_s)
        rate = {i: efficiency if beside and tasks[i].computes else 1.0 for i in left_s}
        first = min(left_s, key=lambda i: (left_s[i] / rate[i], i))
        step_s = left_s[first] / rate[first]
        now_s += step_s
        for i in left_s:
            left_s[i] -= step_s * rate[i]
        end[first], finished[first] = now_s, True
        del left_s[first]
    return start, end


def program_of(tasks: Sequence[Task], ranks: int, algorithm: str = "", efficiency: float = 1.0) -> Program:
    """The tasks on `ranks` equal devices. Collectives are one operation each, for the simulator to price.

    With efficiency 1 computations last as given; below 1 as long as they do beside the collectives, so that the program
    takes the time that `run` says.
    """
    start, end = run(tasks, efficiency)
    builder = ProgramBuilder(ranks, ("compute", "comm"))
    ids: list[tuple[int, ...]] = []
    for task, begin, stop in zip(tasks, start, end, strict=True):
        if task.computes:
            lasts_s = float(task.seconds if efficiency == 1 else stop - begin)
            row = tuple(builder.compute(rank, lasts_s, label=task.label, memory_B=task.held_B) for rank in range(ranks))
        else:
            row = _collective(builder, task, ranks, algorithm)
        for other in task.after:
            builder.depend(row, ids[other])
        ids.append(row)
    return builder.build()


def _collective(builder: ProgramBuilder, task: Task, ranks: int, algorithm: str) -> tuple[int, ...]:
    if task.size_B == 0:
        return tuple(builder.compute(rank, 0.0, label=task.label, stream="comm") for rank in range(ranks))
    ids = builder.extend(
        Kind.COLLECTIVE, np.arange(ranks), group=0, op=task.op, algorithm=algorithm, size_B=task.size_B,
        label=task.label, memory_start_B=task.held_B,
    )  # fmt: skip
    return tuple(int(i) for i in ids)
