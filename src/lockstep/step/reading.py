"""A step's parts read off its timeline: what the device with most work computes, and what it waits for.

A device's compute lane is busy or idle. Busy seconds are kernels, messages that hold the device, the update or the
host's own time. Idle seconds go to the traffic that the next operation waits for and that is under way then: first the
pass's own (tp, cp, ep), then that of neighbouring layers, then the host's; idle seconds without any are the bubble.
"""

from __future__ import annotations

import numpy as np

from lockstep.parallel.pipeline import Placement
from lockstep.parallel.pipeline.passes import EXCHANGE
from lockstep.parallel.script import COMPUTE, GRADIENTS, IN_CELLS
from lockstep.program import Kind, Program, Timeline
from lockstep.step.passes import SLOWED
from lockstep.step.step import PARTS, Composition

WAITS = {
    "tp": "tp_comm", "cp": "cp_comm", "ep": "ep_comm", IN_CELLS: "ep_comm", "dp": "dp_comm", "host": "host_comm",
    GRADIENTS: "dp_comm",
}  # fmt: skip
"""Lanes whose traffic keeps a device waiting, in the order in which idle seconds are theirs."""
BUSY = {EXCHANGE: "pp_comm", SLOWED: "ep_comm", "optimizer": "optimizer", "host": "other"}


def busiest(parts: Composition, placement: Placement) -> int:
    """The stage with most work, which the parts of a step are told of."""
    if placement is not Placement.LOOPED:
        return 0
    return 0 if float(np.asarray(parts.first.total_s)) >= float(np.asarray(parts.last.total_s)) else parts.stages - 1


def breakdown_s(timeline: Timeline, rank: int) -> dict[str, float]:
    """Seconds of a simulated step by part, of one device; they add up to the makespan."""
    program = timeline.program
    compute = program.streams.index(COMPUTE)
    found = dict.fromkeys(PARTS, 0.0)
    until_s = 0.0
    for i in np.flatnonzero((program.rank == rank) & (program.stream == compute)).tolist():
        start_s, end_s = float(timeline.start_s[i]), float(timeline.end_s[i])
        if start_s > until_s:
            _share_out(found, timeline, _awaited(program, i, until_s, timeline), (until_s, start_s))
        label = program.name(int(program.op[i] if program.op[i] >= 0 else program.label[i]))
        found[BUSY.get(label, "compute")] += end_s - start_s
        until_s = end_s
    found["bubble"] += timeline.makespan_s - until_s
    return found


def _awaited(program: Program, operation: int, since_s: float, timeline: Timeline) -> set[int]:
    """Traffic of the same device that `operation` waits for and that ended after `since_s`."""
    compute, rank = program.streams.index(COMPUTE), program.rank[operation]
    left, seen = [operation], set[int]()
    while left:
        one = left.pop()
        for other in _before(program, one):
            mine = program.rank[other] == rank and program.stream[other] != compute
            if mine and other not in seen and timeline.end_s[other] > since_s:
                seen.add(other)
                left.append(other)
    return seen


def _before(program: Program, operation: int) -> list[int]:
    """What an operation waits for, all members of its group with it, and what its lane does before."""
    members = [operation]
    if program.kind[operation] == Kind.BARRIER:
        members = np.flatnonzero(program.group == program.group[operation]).tolist()
    found = [
        i for one in members for i in program.after[program.after_start[one] : program.after_start[one + 1]].tolist()
    ]
    lane = program.lane[:operation]
    same = np.flatnonzero(lane[-512:] == program.lane[operation])
    return found + ([int(same[-1]) + max(0, operation - 512)] if len(same) else [])


def _share_out(found: dict[str, float], timeline: Timeline, awaited: set[int], gap: tuple[float, float]) -> None:
    """Adds the seconds of an idle gap to the parts that they are waited for."""
    program, idle = timeline.program, [gap]
    for lane, part in WAITS.items():
        for i in sorted(one for one in awaited if program.streams[program.stream[one]] == lane):
            left: list[tuple[float, float]] = []
            for low, high in idle:
                start_s, end_s = max(low, float(timeline.start_s[i])), min(high, float(timeline.end_s[i]))
                if end_s <= start_s:
                    left.append((low, high))
                    continue
                found[part] += end_s - start_s
                left += [(a, b) for a, b in ((low, start_s), (end_s, high)) if b > a]
            idle = left
    found["bubble"] += sum(high - low for low, high in idle)
