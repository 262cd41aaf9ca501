"""Clocks of ranks: `align` puts several traces on one clock and finds the partners of every collective.

Members of a group run the same sequence of collectives, and a collective ends for all of them at the same moment. For
two ranks of a group, the sequences of (collective, bytes) are laid against each other at every shift within reach, as
profilers start at different moments; shifts at which at least 99 % of the names agree are candidates. Of those the one
counts whose end differences vary least around their median, which is the clock offset; where several vary as little
(a step repeats), the one that agrees with the numbers of the steps, then the one with the smallest offset. A message is
a collective of two, whose ranks are the group's. Groups that kernels lost are found again first (`recover.py`).

    end skew    median distance of the end differences from the offset: the test of the match
    accepted    if the end skew is below 50 us, or 5 % of the collectives' median duration

Offsets of ranks that share no group follow from the ranks between them. Ranks that are connected to no other keep the
clock of their host. Source of the test by end skew: vLLM RFC 52777 and TraceLens' collective analysis (AMD, 2025).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lockstep.diagnosis.recover import Key, recovered
from lockstep.diagnosis.steps import Window, steps_of
from lockstep.diagnosis.streams import refilled
from lockstep.diagnosis.trace import TABLE_HOST, RankTrace, Spans
from lockstep.errors import BadInput
from lockstep.types.arrays import Floats, Ints

AGREE_FRAC = 0.99
SKEW_S, SKEW_FRAC = 50e-6, 0.05
HOST_SKEW_S = 10e-3
"""Of runs on CPUs, whose threads hear of an end when they are scheduled."""
REACH = 64
"""Collectives by which starts of two profilers may differ beyond what the steps' numbers say."""
LEAST = 2


@dataclass(frozen=True, slots=True)
class Collectives:
    """The collectives of one group on one rank, in order."""

    span: Ints
    code: Ints
    """What each one is, as a number common to all ranks."""
    start_s: Floats
    end_s: Floats
    step: Ints
    """Number of the step that each lies in, -1 outside of all."""


@dataclass(frozen=True, slots=True)
class Match:
    """How two ranks' sequences of one group lie against each other."""

    shift: int
    """Collective i of the first is collective i + shift of the second."""
    offset_s: float
    """The second rank's clock less the first's."""
    skew_s: float
    agree_frac: float
    count: int
    duration_s: float
    least_s: float = SKEW_S
    """Ends of one collective lie at least so far apart on hosts, where threads see them."""

    @property
    def accepted(self) -> bool:
        """Whether ends meet."""
        return self.agree_frac >= AGREE_FRAC and self.skew_s <= self.tolerance_s

    @property
    def tolerance_s(self) -> float:
        """By how much ends of one collective may lie apart."""
        return max(self.least_s, SKEW_FRAC * self.duration_s)


@dataclass(frozen=True)
class Aligned:
    """Traces on one clock."""

    traces: tuple[RankTrace, ...]
    windows: tuple[tuple[Window, ...], ...]
    """Steps of every trace that all traces have, on the common clock."""
    arrived_s: tuple[Floats, ...]
    """When the last member of each operation's collective arrived, `[operations]` per trace; NaN where unknown."""
    last: tuple[Ints, ...]
    """Place in `traces` of that member, -1 where unknown."""
    found_by: str = ""
    end_skew_s: float | None = None
    matched_frac: float | None = None
    not_known: tuple[str, ...] = ()


def align(traces: Sequence[RankTrace]) -> Aligned:
    """The traces of one run on the clock of the first. Raises BadInput for two of one rank, or of different runs."""
    traces = _ordered(traces)
    steps = [steps_of(trace) for trace in traces]
    zero_ns = traces[0].zero_ns
    offset_s = [(trace.zero_ns - zero_ns) / 1e9 for trace in traces]
    traces = [refilled(trace, one.begins_s) for trace, one in zip(traces, steps, strict=True)]
    codes: dict[object, int] = {}
    sequences = [_sequences(trace, one.windows, codes) for trace, one in zip(traces, steps, strict=True)]
    if len(traces) > 1 and any(trace.lost_group.any() for trace in traces):
        traces = _with_groups(traces, sequences)
        sequences = [_sequences(trace, one.windows, codes) for trace, one in zip(traces, steps, strict=True)]
    clock, matches, notes = _clocks(traces, sequences, [one.windows for one in steps], offset_s)
    moved = [trace.shifted(clock[i]) for i, trace in enumerate(traces)]
    arrived, last, matched = _arrivals(moved, sequences, matches)
    accepted = [one for one in matches.values() if one.accepted]
    common = set.intersection(*({w.step for w in one.windows} for one in steps))
    if not common:
        raise BadInput("the traces have no step in common; give traces of the same steps of all ranks", traces[0].path)
    windows = tuple(tuple(w.shifted(clock[i]) for w in one.windows if w.step in common) for i, one in enumerate(steps))
    for i, one in enumerate(steps):
        if one.disagreement_frac:
            notes.append(
                f"steps of {_called(traces[i])}: windows and the device's own recurrence differ by "
                f"{one.disagreement_frac:+.1%}"
            )
    return Aligned(
        tuple(moved), windows, arrived, last,
        found_by=steps[0].found_by,
        end_skew_s=float(np.median([one.skew_s for one in accepted])) if accepted else None,
        matched_frac=matched if len(traces) > 1 else None,
        not_known=tuple(dict.fromkeys(notes)),
    )  # fmt: skip


def _with_groups(traces: list[RankTrace], sequences: list[dict[Key, Collectives]]) -> list[RankTrace]:
    """The traces with groups that kernels lost, as far as other ranks have them."""

    def shift(one: int, two: int, key: Key) -> int:
        likely = _by_step(sequences[one][key], sequences[two][key])
        return int(np.median(list(likely))) if likely else 0

    named = [{key: (of.code, of.end_s) for key, of in each.items() if key[0]} for each in sequences]
    return recovered(traces, named, shift)


def _called(trace: RankTrace) -> str:
    return f"rank {trace.rank}" if trace.rank is not None else trace.path


def _ordered(traces: Sequence[RankTrace]) -> list[RankTrace]:
    """By rank. BadInput where two say the same rank, or several do not say theirs, or they are of different runs."""
    seen: dict[int, RankTrace] = {}
    for trace in traces:
        if trace.rank is None:
            if len(traces) > 1:
                raise BadInput("does not say which rank it is of; give --ranks RANK=FILE", trace.path)
        elif trace.rank in seen:
            raise BadInput(
                f"is of rank {trace.rank}, as {seen[trace.rank].path} is; give one file per rank", trace.path
            )
        else:
            seen[trace.rank] = trace
    worlds = {trace.world for trace in traces if trace.world is not None}
    if len(worlds) > 1:
        raise BadInput(f"the files are of runs with {' and '.join(map(str, sorted(worlds)))} ranks", traces[0].path)
    return sorted(traces, key=lambda trace: -1 if trace.rank is None else trace.rank)


def _sequences(trace: RankTrace, windows: Sequence[Window], codes: dict[object, int]) -> dict[Key, Collectives]:
    """The collectives of every group that a rank is in; messages by the pair of ranks."""
    spans = trace.spans
    chosen = np.flatnonzero(spans.communicates)
    edges = np.array([w.start_s for w in windows] + [windows[-1].end_s])
    place = np.searchsorted(edges, spans.start_s[chosen], side="right") - 1
    numbers = np.array([w.step for w in windows] + [-1])
    step = np.where((place >= 0) & (place < len(windows)), numbers[np.clip(place, 0, len(windows))], -1)
    found: dict[Key, list[tuple[int, int, int]]] = defaultdict(list)
    for i, number in zip(chosen.tolist(), step.tolist(), strict=True):
        op, peer, group = trace.name(int(spans.op[i])), int(spans.peer[i]), trace.name(int(spans.group[i]))
        code: object = (op, float(spans.size_B[i]))
        key: Key = (group, tuple(trace.groups.get(group, ())))
        if op in ("send", "recv") and peer >= 0 and trace.rank is not None:
            ends = (trace.rank, peer) if op == "send" else (peer, trace.rank)
            key, code = (f"{group} message", ends), ("message", float(spans.size_B[i]))
        found[key].append((i, codes.setdefault(code, len(codes)), number))
    return {key: _collectives(spans, np.array(rows)) for key, rows in found.items()}


def _collectives(spans: Spans, rows: Ints) -> Collectives:
    """Collectives with (place, code, step) in rows."""
    return Collectives(rows[:, 0], rows[:, 1], spans.start_s[rows[:, 0]], spans.end_s[rows[:, 0]], rows[:, 2])


def _match(one: Collectives, two: Collectives, offset_s: float, apart_s: tuple[float, float] | None) -> Match | None:
    """The best shift of `two` against `one`; None where no names agree.

    `offset_s`: how much later the second clock's zero is. `apart_s`: how much later steps of the same number begin in
    the second trace, and half a step; None where no steps are numbered alike.
    """
    likely = _by_step(one, two)
    center = {0, *likely}
    shifts = sorted({base + d for base in center for d in range(-REACH, REACH + 1)})
    found = []
    for shift in shifts:
        low, high = max(0, -shift), min(len(one.code), len(two.code) - shift)
        if high - low < LEAST:
            continue
        agree = float(np.mean(one.code[low:high] == two.code[low + shift : high + shift]))
        if agree < AGREE_FRAC and not (agree > 0.5 and high - low < 1 / (1 - AGREE_FRAC)):
            continue
        ends = two.end_s[low + shift : high + shift] - one.end_s[low:high]
        end_s = float(np.median(ends))
        if apart_s and abs(end_s - apart_s[0]) > apart_s[1]:
            continue
        skew = float(np.median(np.abs(ends - end_s)))
        duration = float(np.median(one.end_s[low:high] - one.start_s[low:high]))
        # Names that do not agree count as ends that do not meet.
        found.append((Match(shift, end_s, skew, agree, high - low, duration), skew + (1.0 - agree)))
    if not found:
        return None
    least = min(cost for _, cost in found)
    close = [match for match, cost in found if cost <= 2.0 * least + 1e-6]
    return min(close, key=lambda m: (m.shift not in likely if likely else False, abs(m.offset_s + offset_s)))


def _listed(one: Collectives, two: Collectives, offset_s: float) -> Match | None:
    """The match of two ranks of one table, which are on one clock and list the same operations."""
    count = min(len(one.code), len(two.code))
    agree = float(np.mean(one.code[:count] == two.code[:count])) if count else 0.0
    return Match(0, -offset_s, 0.0, agree, count, 0.0) if agree >= AGREE_FRAC else None


def _by_step(one: Collectives, two: Collectives) -> set[int]:
    """Shifts at which the last collectives of a step that both have whole lie on each other."""
    found = set()
    for step in (set(one.step.tolist()) & set(two.step.tolist())) - {-1}:
        found.add(int(np.flatnonzero(two.step == step)[-1] - np.flatnonzero(one.step == step)[-1]))
    return found


def _apart(one: Sequence[Window], two: Sequence[Window]) -> tuple[float, float] | None:
    """How much later the steps of the same numbers begin in the second, and half a step; None where none is in both."""
    starts = {w.step: w for w in one}
    both = [(starts[w.step], w) for w in two if w.step in starts]
    if not both:
        return None
    later = [w.start_s - first.start_s for first, w in both]
    return float(np.median(later)), 0.5 * float(np.median([first.seconds for first, _ in both]))


def _clocks(
    traces: Sequence[RankTrace],
    sequences: list[dict[Key, Collectives]],
    windows: Sequence[Sequence[Window]],
    offset_s: list[float],
) -> tuple[list[float], dict[tuple[Key, int, int], Match], list[str]]:
    """(seconds to add to each trace, matches of a group's ranks with its first, what is not known)."""

    def same_clock(one: int, two: int) -> bool:
        return traces[one].host != "" and traces[one].host == traces[two].host

    def same_table(one: int, two: int) -> bool:
        return traces[one].host == traces[two].host == TABLE_HOST

    members: dict[Key, list[int]] = defaultdict(list)
    for i, groups in enumerate(sequences):
        for key in groups:
            members[key].append(i)
    matches: dict[tuple[Key, int, int], Match] = {}
    near: dict[int, list[tuple[int, float, float]]] = defaultdict(list)
    for key, of in members.items():
        for other in of[1:]:
            apart_s = offset_s[other] - offset_s[of[0]]
            steps = _apart(windows[of[0]], windows[other])
            ends = sequences[of[0]][key], sequences[other][key]
            match = _listed(*ends, apart_s) if same_table(of[0], other) else _match(*ends, apart_s, steps)
            if match is None:
                continue
            if traces[other].on_host:
                match = replace(match, least_s=HOST_SKEW_S)
            if same_clock(of[0], other) and abs(match.offset_s + apart_s) <= max(match.tolerance_s, match.skew_s):
                match = replace(match, offset_s=-apart_s)
            matches[key, of[0], other] = match
            if match.accepted:
                near[of[0]].append((other, -match.offset_s, match.skew_s))
                near[other].append((of[0], match.offset_s, match.skew_s))
    clock: dict[int, float] = {}
    for root in range(len(sequences)):
        if root in clock:
            continue
        clock[root], left = (offset_s[root] if clock else 0.0), [root]
        while left:
            at = left.pop(0)
            for other, seconds, _ in sorted(near[at], key=lambda row: row[2]):
                if other not in clock:
                    clock[other] = clock[at] + seconds
                    left.append(other)
    notes = [
        f"the collectives of group {key[0] or 'unnamed'} end {match.skew_s * 1e6:.3g} us apart on two of its ranks, so "
        "they could not be matched: of those, waiting and transfer are one number"
        for (key, _, _), match in matches.items()
        if not match.accepted
    ]
    return [clock[i] for i in range(len(sequences))], matches, notes


def _arrivals(
    traces: list[RankTrace], sequences: list[dict[Key, Collectives]], matches: Mapping[tuple[Key, int, int], Match]
) -> tuple[tuple[Floats, ...], tuple[Ints, ...], float]:
    """(last arrival and the trace that it was of, for every operation; share of collectives with their partners)."""
    arrived = [np.full(len(trace.spans), np.nan) for trace in traces]
    last = [np.full(len(trace.spans), -1) for trace in traces]
    groups: dict[tuple[Key, int], list[tuple[int, int]]] = defaultdict(list)
    for (key, first, other), match in matches.items():
        if match.accepted:
            groups[key, first].append((other, match.shift))
    for (key, first), others in groups.items():
        count = len(sequences[first][key].span)
        start = np.full((len(others) + 1, count), -np.inf)
        spans = np.full((len(others) + 1, count), -1)
        spans[0] = sequences[first][key].span
        start[0] = traces[first].spans.start_s[spans[0]]
        for row, (other, shift) in enumerate(others, start=1):
            theirs = sequences[other][key].span
            at = np.arange(count) + shift
            inside = (at >= 0) & (at < len(theirs))
            spans[row, inside] = theirs[at[inside]]
            start[row, inside] = traces[other].spans.start_s[spans[row, inside]]
        # Where a member's collective lies before its profiler started, nobody knows who was last.
        whole = (spans >= 0).all(axis=0)
        who = np.array([first, *(other for other, _ in others)])
        latest = np.argmax(start, axis=0)
        for row, place in enumerate(who.tolist()):
            mine = spans[row, whole]
            arrived[place][mine] = start[latest[whole], np.flatnonzero(whole)]
            last[place][mine] = who[latest[whole]]
    total = sum(int(trace.spans.communicates.sum()) for trace in traces)
    known = sum(int(np.isfinite(one).sum()) for one in arrived)
    return tuple(arrived), tuple(last), known / total if total else 1.0
