"""Clocks of ranks: `align` puts several traces on one clock and finds the partners of every collective.

Two ranks of a group are matched by the collectives that they share (`match.py`), which gives the second one's clock
over the first: an offset, and a drift where hosts' clocks do not run alike. A message is a collective of two, whose
ranks are the group's. Groups that kernels lost are found again first (`streams.py`, `recover.py`). Ranks of one host
have one clock. Clocks of ranks that share no group follow from the ranks between them. Ranks that are connected to no
other keep the clock of their host.
"""

from __future__ import annotations

import heapq
import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass, replace
from lockstep.base.types.arrays import Floats, Ints
from lockstep.explain.match import HOST_SKEW_S, Clock, Collectives, Match, apart, by_step, listed, match
from lockstep.explain.recover import Key, recovered
from lockstep.explain.steps import Window, steps_of
from lockstep.explain.streams import refilled
from lockstep.explain.trace import TABLE_HOST, RankTrace, Spans


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
    drift_frac: tuple[float, ...] = ()
    """By how much more than 1 s each trace's own clock goes on in 1 s of the common one."""
    not_known: tuple[str, ...] = ()


def align(traces: Sequence[RankTrace]) -> Aligned:
    """The traces of one run on the clock of the first. Raises BadInput for two of one rank, or of different runs."""
    traces = _ordered(traces)
    steps = [steps_of(trace) for trace in traces]
    zero_ns = traces[0].zero_ns
    offset_s = [(trace.zero_ns - zero_ns) / 1e9 for trace in traces]
    traces = [refilled(trace, one.begins_s) for trace, one in zip(traces, steps, strict=True)]
    codes: dict[object, int] = {}

    def sequences_of(traces: Sequence[RankTrace], windows: Sequence[Sequence[Window]]) -> list[dict[Key, Collectives]]:
        return [_sequences(trace, of, codes) for trace, of in zip(traces, windows, strict=True)]

    windows_of = [one.windows for one in steps]
    sequences = sequences_of(traces, windows_of)
    before = [Clock()] * len(traces)
    if len(traces) > 1 and any(trace.lost_group.any() for trace in traces):
        # Clocks come first, by the groups that no kernel lost: hosts drift by more than ends of a collective differ.
        before, _, _ = _clocks(traces, sequences, windows_of, offset_s)
        traces, windows_of = _on_one_clock(traces, windows_of, before)
        traces, offset_s = _with_groups(traces, sequences_of(traces, windows_of)), [0.0] * len(traces)
        sequences = sequences_of(traces, windows_of)
    clock, matches, notes = _clocks(traces, sequences, windows_of, offset_s)
    moved, windows_of = _on_one_clock(traces, windows_of, clock)
    if any(of.rate != 1.0 for of in clock):
        # Groups with too few collectives to show a drift meet once their clocks are one by others.
        sequences = sequences_of(moved, windows_of)
        again, matches, notes = _clocks(moved, sequences, windows_of, [0.0] * len(moved))
        moved, windows_of = _on_one_clock(moved, windows_of, again)
        clock = [second.after(first) for first, second in zip(clock, again, strict=True)]
    clock = [second.after(first) for first, second in zip(before, clock, strict=True)]
    arrived, last, matched = _arrivals(moved, sequences, matches)
    accepted = [one for one in matches.values() if one.accepted]
    common = set.intersection(*({w.step for w in one.windows} for one in steps))
    if not common:
        raise BadInput("the traces have no step in common; give traces of the same steps of all ranks", traces[0].path)
    windows = tuple(tuple(w for w in of if w.step in common) for of in windows_of)
    for i, one in enumerate(steps):
        if one.disagreement_frac:
            notes.append(
                f"steps of {traces[i].called}: windows and the device's own recurrence differ by "
                f"{one.disagreement_frac:+.1%}"
            )
    return Aligned(
        tuple(moved), windows, arrived, last,
        found_by=steps[0].found_by,
        end_skew_s=float(np.median([one.skew_s for one in accepted])) if accepted else None,
        matched_frac=matched if len(traces) > 1 else None,
        drift_frac=tuple(1.0 / of.rate - 1.0 for of in clock),
        not_known=tuple(dict.fromkeys(notes)),
    )  # fmt: skip


def _on_one_clock(
    traces: Sequence[RankTrace], windows: Sequence[tuple[Window, ...]], clock: Sequence[Clock]
) -> tuple[list[RankTrace], list[tuple[Window, ...]]]:
    """Traces and their steps by the clock of the first."""
    moved = [trace.clocked(of.rate, of.offset_s) for trace, of in zip(traces, clock, strict=True)]
    steps = [tuple(w.clocked(of.rate, of.offset_s) for w in one) for one, of in zip(windows, clock, strict=True)]
    return moved, steps


def _with_groups(traces: list[RankTrace], sequences: list[dict[Key, Collectives]]) -> list[RankTrace]:
    """The traces with groups that kernels lost, as far as other ranks have them."""

    def shift(one: int, two: int, key: Key) -> int:
        likely = by_step(sequences[one][key], sequences[two][key])
        return int(np.median(list(likely))) if likely else 0

    named = [{key: (of.code, of.end_s) for key, of in each.items() if key[0]} for each in sequences]
    return recovered(traces, named, shift)


def _ordered(traces: Sequence[RankTrace]) -> list[RankTrace]:
    """By rank. BadInput where two say the same rank, or several do not say theirs, or they are of different runs."""
    seen: dict[int, RankTrace] = {}
    for trace in traces:
        if trace.rank is None:
            if len(traces) > 1:
                raise BadInput("does not state its rank; use --ranks RANK=FILE", trace.path)
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


def _clocks(
    traces: Sequence[RankTrace],
    sequences: list[dict[Key, Collectives]],
    windows: Sequence[Sequence[Window]],
    offset_s: list[float],
) -> tuple[list[Clock], dict[tuple[Key, int, int], Match], list[str]]:
    """(from each trace's clock to the common one, matches of a group's ranks with its first, what is not known)."""

    def same_clock(one: int, two: int) -> bool:
        return traces[one].host != "" and traces[one].host == traces[two].host

    def same_table(one: int, two: int) -> bool:
        return traces[one].host == traces[two].host == TABLE_HOST

    members: dict[Key, list[int]] = defaultdict(list)
    for i, groups in enumerate(sequences):
        for key in groups:
            members[key].append(i)
    matches: dict[tuple[Key, int, int], Match] = {}
    near: dict[int, list[tuple[int, Clock, float]]] = defaultdict(list)
    for key, of in members.items():
        for other in of[1:]:
            apart_s = offset_s[other] - offset_s[of[0]]
            steps = apart(windows[of[0]], windows[other])
            ends = sequences[of[0]][key], sequences[other][key]
            found = listed(*ends, apart_s) if same_table(of[0], other) else match(*ends, apart_s, steps)
            if found is None:
                continue
            if traces[other].on_host:
                found = replace(found, least_s=HOST_SKEW_S)
            if same_clock(of[0], other) and abs(found.offset_s + apart_s) <= max(found.tolerance_s, found.skew_s):
                found = replace(found, offset_s=-apart_s, drift_frac=0.0)
            matches[key, of[0], other] = found
            if found.accepted:
                near[of[0]].append((other, found.first, found.skew_s))
                near[other].append((of[0], found.second, found.skew_s))
    clock: dict[int, Clock] = {}
    for root in range(len(sequences)):
        if root not in clock:
            clock[root] = Clock(offset_s=offset_s[root] if clock else 0.0)
            _connect(clock, root, near)
    notes = [
        f"the collectives of group {key[0] or 'unnamed'} end {found.skew_s * 1e6:.3g} us apart on two of its ranks, so "
        "they could not be matched: of those, waiting and transfer are one number"
        for (key, _, _), found in matches.items()
        if not found.accepted
    ]
    return [clock[i] for i in range(len(sequences))], matches, notes


def _connect(clock: dict[int, Clock], root: int, near: Mapping[int, Sequence[tuple[int, Clock, float]]]) -> None:
    """Adds the clocks of all ranks connected to `root`, through the matches whose ends meet best (Prim, 1957)."""
    order = itertools.count()
    left = [(skew_s, next(order), root, other, between) for other, between, skew_s in near[root]]
    heapq.heapify(left)
    while left:
        _, _, at, other, between = heapq.heappop(left)
        if other not in clock:
            clock[other] = clock[at].after(between)
            for further, beyond, skew_s in near[other]:
                heapq.heappush(left, (skew_s, next(order), other, further, beyond))


def _arrivals(
    traces: list[RankTrace], sequences: list[dict[Key, Collectives]], matches: Mapping[tuple[Key, int, int], Match]
) -> tuple[tuple[Floats, ...], tuple[Ints, ...], float]:
    """(last arrival and the trace that it was of, for every operation; share of collectives with their partners)."""
    arrived = [np.full(len(trace.spans), np.nan) for trace in traces]
    last = [np.full(len(trace.spans), -1) for trace in traces]
    groups: dict[tuple[Key, int], list[tuple[int, int]]] = defaultdict(list)
    for (key, first, other), found in matches.items():
        if found.accepted:
            groups[key, first].append((other, found.shift))
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
