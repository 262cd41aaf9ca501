"""`idle_s`: why a lane of a rank is idle: the seconds go to the lanes whose operations its next one waits for.

An idle gap ends when the lane's next operation starts. Of what that waits for on its own rank, on other lanes and one
behind another, each lane is given the seconds in which it is busy within the gap; where several are, the first listed.
Seconds without any are nobody's: the next operation waits for another rank, or the program has ended.

`waits_s`: who waited for whom in a timeline, simulated or measured; `working_s`: what a rank's own work took.

An operation is ready when its predecessor on the lane and everything it depends on have ended. A message starts when
both its ends are ready: the one that was ready first has waited for the other. A barrier or collective starts when all
are: everybody has waited for the last. From ready to end a computation is the rank's own work, whatever kept it from
starting included; a transfer is as much its peer's.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lockstep.base.types.arrays import Array
from lockstep.simulate.program.program import Kind, Program
from lockstep.simulate.program.timeline import COMPUTES, Timeline

NOBODY = ""
Gap = tuple[float, float]


def idle_s(timeline: Timeline, rank: int, stream: str, lanes: Sequence[str]) -> dict[str, float]:
    """Idle seconds of one lane by the lane that it waits for, `NOBODY` for the rest; with busy ones, the makespan."""
    program, found, until_s = timeline.program, dict.fromkeys((*lanes, NOBODY), 0.0), 0.0
    previous = _previous(program)
    for i in np.flatnonzero((program.rank == rank) & (program.stream == program.streams.index(stream))).tolist():
        if (start_s := float(timeline.start_s[i])) > until_s:
            awaited = _awaited(timeline, previous, i, until_s)
            left = [(until_s, start_s)]
            for lane in lanes:
                for other in sorted(one for one in awaited if program.streams[program.stream[one]] == lane):
                    span = float(timeline.start_s[other]), float(timeline.end_s[other])
                    before_s, left = _length_s(left), _without(left, span)
                    found[lane] += before_s - _length_s(left)
            found[NOBODY] += _length_s(left)
        until_s = float(timeline.end_s[i])
    found[NOBODY] += timeline.makespan_s - until_s
    return found


def _previous(program: Program) -> list[int]:
    """The operation before each on its lane, -1 for none."""
    by_lane = np.argsort(program.lane, kind="stable")
    found = np.full(len(program), -1)
    same = program.lane[by_lane[1:]] == program.lane[by_lane[:-1]]
    found[by_lane[1:][same]] = by_lane[:-1][same]
    return [int(one) for one in found]


def _awaited(timeline: Timeline, previous: list[int], operation: int, since_s: float) -> set[int]:
    """Operations on other lanes of the rank that `operation` waits for and that ended after `since_s`."""
    program, left, seen = timeline.program, [operation], set[int]()
    while left:
        for other in _before(program, previous, left.pop()):
            mine = program.rank[other] == program.rank[operation] and program.stream[other] != program.stream[operation]
            if mine and other not in seen and timeline.end_s[other] > since_s:
                seen.add(other)
                left.append(other)
    return seen


def _before(program: Program, previous: list[int], operation: int) -> list[int]:
    """What an operation and the members of its barrier wait for, and what its lane does before."""
    members = [operation]
    if program.kind[operation] == Kind.BARRIER:
        members = np.flatnonzero(program.group == program.group[operation]).tolist()
    spans = [(program.after_start[one], program.after_start[one + 1]) for one in members]
    found = [int(i) for low, high in spans for i in program.after[low:high]]
    return found + [previous[operation]] * (previous[operation] >= 0)


def _length_s(gaps: Sequence[Gap]) -> float:
    return sum(high - low for low, high in gaps)


def _without(gaps: Sequence[Gap], span: Gap) -> list[Gap]:
    """Gaps less what a span covers of them."""
    parts = [part for low, high in gaps for part in ((low, min(high, span[0])), (max(low, span[1]), high))]
    return [part for part in parts if part[1] > part[0]]


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
