"""A step's parts read off its timeline: what the device with most work computes, and what it waits for.

A device's compute lane is busy with kernels, messages that hold the device, the update or the host's own time. Idle
seconds go to the traffic that the next operation waits for (`program.idle_s`): first the pass's own, then that of
neighbouring layers, then the host's, then gradients; idle seconds without any are the bubble.
"""

from __future__ import annotations

import numpy as np

from lockstep.price.step.passes import GENERATION, SLOWED, WAITING
from lockstep.price.step.step import PARTS, Composition
from lockstep.simulate.parallel.lanes import COMPUTE
from lockstep.simulate.parallel.pipeline import Placement
from lockstep.simulate.parallel.pipeline.passes import EXCHANGE
from lockstep.simulate.parallel.script import GRADIENTS, IN_CELLS
from lockstep.simulate.program import Timeline, idle_s

WAITS = {
    "tp": "tp_comm", "cp": "cp_comm", "ep": "ep_comm", IN_CELLS: "ep_comm", "pp": "pp_comm", "dp": "dp_comm",
    "host": "host_comm",
    GRADIENTS: "dp_comm", WAITING: "waiting",
}  # fmt: skip
BUSY = {EXCHANGE: "pp_comm", SLOWED: "ep_comm", "optimizer": "optimizer", "host": "other", GENERATION: "generation"}


def busiest(parts: Composition, placement: Placement) -> int:
    """The stage with most work, to which the parts of a step refer."""
    if parts.devices:
        return parts.busiest
    if placement is not Placement.LOOPED:
        return 0
    return 0 if float(np.asarray(parts.first.total_s)) >= float(np.asarray(parts.last.total_s)) else parts.stages - 1


def breakdown_s(timeline: Timeline, rank: int) -> dict[str, float]:
    """Seconds of a simulated step by part, of one device; they add up to the makespan."""
    program, found = timeline.program, dict.fromkeys(PARTS, 0.0)
    for i in np.flatnonzero((program.rank == rank) & (program.stream == program.streams.index(COMPUTE))).tolist():
        label = program.name(int(program.op[i] if program.op[i] >= 0 else program.label[i]))
        found[BUSY.get(label, "compute")] += float(timeline.end_s[i] - timeline.start_s[i])
    for lane, seconds in idle_s(timeline, rank, COMPUTE, tuple(WAITS)).items():
        found[WAITS.get(lane, "bubble")] += seconds
    return found
