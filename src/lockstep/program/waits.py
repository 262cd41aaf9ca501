"""`waits_s`: who waited for whom in a timeline, simulated or measured; `working_s`: what a rank's own work took.

An operation is ready when its predecessor on the lane and everything it depends on have ended. A message starts when
both its ends are ready: the one that was ready first has waited for the other. A barrier or collective starts when all
are: everybody has waited for the last. From ready to end a computation is the rank's own work, whatever kept it from
starting included; a transfer is as much its peer's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lockstep.program.timeline import COMPUTES, Timeline

Array = npt.NDArray[Any]


def waits_s(timeline: Timeline) -> Array:
    """Seconds that rank i (row) waited for rank j (column) to be ready, shape (ranks, ranks); lanes add up."""
    program, ready = timeline.program, ready_s(timeline)
    waits = np.zeros((program.ranks, program.ranks))
    ends = np.flatnonzero(program.match >= 0)
    late_s = np.maximum(ready[program.match[ends]] - ready[ends], 0.0)
    np.add.at(waits, (program.rank[ends], program.peer[ends]), late_s)
    start, members = program.groups
    for low, high in zip(start[:-1].tolist(), start[1:].tolist(), strict=True):
        group = members[low:high]
        last = group[np.argmax(ready[group])]
        np.add.at(waits, (program.rank[group], program.rank[last]), ready[last] - ready[group])
    return waits


def working_s(timeline: Timeline) -> Array:
    """Seconds from ready to end of each rank's computations, reductions and copies; lanes add up."""
    program = timeline.program
    took_s = np.where(np.isin(program.kind, COMPUTES), timeline.end_s - ready_s(timeline), 0.0)
    return np.bincount(program.rank, took_s, program.ranks)


def ready_s(timeline: Timeline) -> Array:
    """When the last operation that each operation waits for on its own account ended; 0 where it waits for none."""
    program = timeline.program
    ready = np.zeros(len(program))
    by_lane = np.argsort(program.lane, kind="stable")
    before, then = by_lane[:-1], by_lane[1:]
    same = program.lane[before] == program.lane[then]
    ready[then[same]] = timeline.end_s[before[same]]
    heads = np.repeat(np.arange(len(program)), np.diff(program.after_start))
    np.maximum.at(ready, heads, timeline.end_s[program.after])
    return ready
