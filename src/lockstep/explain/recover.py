"""Groups of kernels that lost them: `recovered` finds them again by the moment at which collectives end.

Profilers drop the records behind some kernels, so that a rank's sequence of a group has holes and cannot be laid
against another rank's as it is. Clocks are found by vote instead: of the end differences of equal collectives near each
other in two sequences, the true ones agree to microseconds, all others differ. On one clock, a kernel without a group
that ends when a collective of other ranks does, in a group that its rank is in, is its rank's part of that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from lockstep.base.types.arrays import Floats, Ints
from lockstep.explain.trace import RankTrace

NEAR_S = 20e-6
"""Ends of one collective."""
REACH = 64
LEAST_VOTES = 4
Key = tuple[str, tuple[int, ...]]
"""(name, ranks) of a group."""
Ends = tuple[Ints, Floats]
"""(code, end) of a sequence of collectives."""
TURNED = {"send": "recv", "recv": "send"}


def vote(one: Ends, two: Ends, shift: int) -> float | None:
    """By how much ends of the second are later, from collectives near each other around a shift; None without votes."""
    found = []
    for d in range(shift - REACH, shift + REACH + 1):
        low, high = max(0, -d), min(len(one[0]), len(two[0]) - d)
        if high > low:
            equal = one[0][low:high] == two[0][low + d : high + d]
            found.append((two[1][low + d : high + d] - one[1][low:high])[equal])
    apart = np.sort(np.concatenate(found)) if found else np.zeros(0)
    if not len(apart):
        return None
    votes = np.searchsorted(apart, apart + NEAR_S, side="right") - np.arange(len(apart))
    best = int(np.argmax(votes))
    return float(np.median(apart[best : best + votes[best]])) if votes[best] >= LEAST_VOTES else None


def recovered(
    traces: Sequence[RankTrace], ends: Sequence[Mapping[Key, Ends]], shift: Callable[[int, int, Key], int]
) -> list[RankTrace]:
    """The traces with the groups that could be found again.

    `ends` are the known collectives of every trace by group; `shift(i, j, group)` is where the second one's sequence
    lies against the first one's by the numbers of their steps.
    """
    clock = _clock(len(traces), ends, shift)
    known = _known(traces, clock)
    return [
        _filled(traces, place, known, clock[place]) if place in clock and trace.lost_group.any() else trace
        for place, trace in enumerate(traces)
    ]


def _clock(count: int, ends: Sequence[Mapping[Key, Ends]], shift: Callable[[int, int, Key], int]) -> dict[int, float]:
    """Seconds to add to the times of each trace that is connected to the first."""
    members: dict[Key, list[int]] = defaultdict(list)
    for place, groups in enumerate(ends):
        for key in groups:
            members[key].append(place)
    near: dict[int, dict[int, float]] = defaultdict(dict)
    for key, places in members.items():
        for other in places[1:]:
            first = places[0]
            if other not in near[first]:
                later_s = vote(ends[first][key], ends[other][key], shift(first, other, key))
                if later_s is not None:
                    near[first][other], near[other][first] = -later_s, later_s
    clock, left = {0: 0.0}, [0]
    while left:
        at = left.pop(0)
        for other, seconds in near[at].items():
            if other not in clock:
                clock[other] = clock[at] + seconds
                left.append(other)
    return clock


def _known(traces: Sequence[RankTrace], clock: Mapping[int, float]) -> tuple[Floats, Ints, Ints]:
    """(end, trace, operation) of all collectives whose group is known, by their ends."""
    rows = [
        (trace.spans.end_s[of] + clock[place], np.full(len(of), place), of)
        for place, trace in enumerate(traces)
        if place in clock
        for of in (np.flatnonzero(trace.spans.communicates & (trace.spans.group >= 0)),)
    ]
    end, place, span = (np.concatenate(column) for column in zip(*rows, strict=True))
    order = np.argsort(end, kind="stable")
    return end[order], place[order], span[order]


def _filled(traces: Sequence[RankTrace], place: int, known: tuple[Floats, Ints, Ints], clock_s: float) -> RankTrace:
    """One trace with the groups of its kernels that end when another rank's collective does."""
    trace, (end, of, span) = traces[place], known
    names = {name: i for i, name in enumerate(trace.names)}
    columns = {name: getattr(trace.spans, name).copy() for name in ("group", "op", "size_B", "peer")}
    groups, titles = dict(trace.groups), dict(trace.titles)
    own = {name: trace.spans.end_s[trace.spans.group == i] + clock_s for name, i in names.items()}
    for i in np.flatnonzero(trace.lost_group).tolist():
        at = float(trace.spans.end_s[i]) + clock_s
        low, high = np.searchsorted(end, (at - NEAR_S, at + NEAR_S)).tolist()
        for k in sorted(range(low, high), key=lambda k: _unlike(trace, i, traces[int(of[k])], int(span[k]))):
            other, j = traces[int(of[k])], int(span[k])
            name, op = other.name(int(other.spans.group[j])), other.name(int(other.spans.op[j]))
            ranks, peer = other.groups.get(name, ()), int(other.spans.peer[j])
            if of[k] == place or trace.rank not in ranks or (peer >= 0 and peer != trace.rank):
                continue
            # A collective whose part on this rank is known has no other.
            if name in own and bool((np.abs(own[name] - end[k]) < NEAR_S).any()):
                continue
            groups.setdefault(name, ranks)
            titles.setdefault(name, other.titles.get(name, name))
            columns["group"][i] = names.setdefault(name, len(names))
            op = TURNED.get(op, op)
            columns["op"][i] = names.setdefault(op, len(names))
            columns["size_B"][i] = other.spans.size_B[j]
            columns["peer"][i] = other.rank if peer >= 0 and other.rank is not None else -1
            break
    return replace(trace, names=tuple(names), groups=groups, titles=titles, spans=replace(trace.spans, **columns))


def _unlike(one: RankTrace, i: int, two: RankTrace, j: int) -> tuple[bool, bool]:
    """Whether kernels that end together are of other names, and on other streams: collectives may end together."""
    names = one.name(int(one.spans.name[i])), two.name(int(two.spans.name[j]))
    return names[0] != names[1], bool(one.spans.stream[i] != two.spans.stream[j])
