"""`idle_s`: why a lane of a rank is idle: the seconds go to the lanes whose operations its next one waits for.

An idle gap ends when the lane's next operation starts. Of what that waits for on its own rank, on other lanes and one
behind another, each lane is given the seconds in which it is busy within the gap; where several are, the first listed.
Seconds without any are nobody's: the next operation waits for another rank, or the program has ended.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lockstep.program.program import Kind, Program
from lockstep.program.timeline import Timeline

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
