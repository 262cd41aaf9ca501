"""Steps of a rank: `windows`, spans of time that follow one another without gaps, one per training step.

Where the host says its steps (`ProfilerStep#`, else the optimizer's annotation), a step on the device begins with the
first operation that was launched in the host's step: the device runs behind the host, and the annotation on the
device's side leaves out what other threads launched. Without annotations, steps are the period of the sequence of
collectives, and without that the trace is one step. A step of the host with almost no work is none: the last annotation
of a profile often holds what runs after training, and those of warming up nothing at all. The first step is left out
where three or more are there, the last one where four or more are: the profiler's start and end fall into them.

A second anchor: the device's own recurrence, the median time between the same collective of successive steps. Where it
differs from the windows by more than 2 %, `disagreement_frac` says by how much.
"""

from __future__ import annotations

import itertools
import re

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass, replace
from lockstep.base.types.arrays import Bools, Floats, Ints
from lockstep.explain.streams import streams_of
from lockstep.explain.trace import Mark, RankTrace

PROFILER_STEP = re.compile(r"^ProfilerStep#(\d{1,15})$")
OPTIMIZER_STEP = re.compile(r"^Optimizer\.step#")
SEVERAL = -1
"""Number of a time in which the host ran several steps that it does not say."""
EMPTY_FRAC = 0.1
"""Of the seconds of operations of the middle step, and of their number: a step with less of both is none; assumed."""
MOST_PERIOD = 20_000
"""Collectives of one step, where steps are sought as their period."""


@dataclass(frozen=True, slots=True)
class Window:
    """One step of one rank, in the rank's own seconds."""

    step: int
    start_s: float
    end_s: float

    @property
    def seconds(self) -> float:
        """How long it takes."""
        return self.end_s - self.start_s

    def clocked(self, rate: float, offset_s: float) -> Window:
        """The same on another clock, as `RankTrace.clocked`."""
        return replace(self, start_s=rate * self.start_s + offset_s, end_s=rate * self.end_s + offset_s)


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of a rank, in order, and how they were found."""

    windows: tuple[Window, ...]
    found_by: str
    disagreement_frac: float = 0.0
    """How much longer windows are than the device's own recurrence; 0 where both agree within 2 %."""
    begins_s: tuple[float, ...] = ()
    """When the host began each step, where it says so."""


def steps_of(trace: RankTrace) -> Steps:
    """All steps of a rank, cut ones included. Raises BadInput for steps that take no time or do not follow another."""
    if marks := _numbered(trace):
        found = _said(trace, marks, "the profiler's steps")
    elif len(ends := [one for one in trace.marks if OPTIMIZER_STEP.match(one.name)]) > 1:
        name = ends[0].name
        edges = [one.end_s for one in ends if one.name == name]
        cut = [(i, Mark("", low, high)) for i, (low, high) in enumerate(itertools.pairwise(edges))]
        found = _said(trace, cut, "the optimizer's steps")
    elif edges := _periods(trace):
        found = Steps(
            tuple(Window(i, low, high) for i, (low, high) in enumerate(itertools.pairwise(edges))),
            "the period of its collectives",
        )
    else:
        spans = trace.spans
        found = Steps((Window(0, float(spans.start_s.min()), float(spans.end_s.max())),), "the whole trace")
    if any(one.seconds <= 0 for one in found.windows):
        raise BadInput("no time passes in its steps", trace.path)
    return replace(found, disagreement_frac=_disagreement(trace, found.windows))


def used(windows: tuple[Window, ...]) -> tuple[Window, ...]:
    """The steps that are reported: without the first of three or more, without the last of four or more."""
    low, high = int(len(windows) >= 3), len(windows) - int(len(windows) >= 4)
    return windows[low:high]


def step_numbers(trace: RankTrace) -> set[int]:
    """Numbers of the profiler's steps in a trace."""
    return {int(found[1]) for mark in trace.marks if (found := PROFILER_STEP.match(mark.name))}


def _numbered(trace: RankTrace) -> list[tuple[int, Mark]]:
    """The profiler's own steps, by number, and times between them where numbers skip.

    A single step that was lost lies there if the host launched, several or a pause of the profiler are none.
    """
    said: dict[int, Mark] = {}
    for mark in trace.marks:
        if (match := PROFILER_STEP.match(mark.name)) and mark.end_s > mark.start_s:
            said.setdefault(int(match[1]), mark)
    found: list[tuple[int, Mark]] = []
    for number, mark in sorted(said.items()):
        before, left = found[-1] if found else (number, mark)
        if number > before + 1 and mark.start_s > left.end_s:
            launched = (trace.spans.called_s >= left.end_s) & (trace.spans.called_s < mark.start_s)
            one_lost = number == before + 2 and bool(launched.any())
            found.append((number - 1 if one_lost else SEVERAL, Mark("", left.end_s, mark.start_s)))
        found.append((number, mark))
    return found


def _said(trace: RankTrace, marks: list[tuple[int, Mark]], found_by: str) -> Steps:
    """Steps that the host says: its own where it computes too, else those that the device ran for them."""
    begins_s = tuple(mark.start_s for _, mark in marks)
    if any(high <= low for low, high in itertools.pairwise(begins_s)):
        raise BadInput(f"its steps do not follow one another by {found_by}", trace.path)
    marks = _with_work(trace, marks)
    begins_s = tuple(mark.start_s for _, mark in marks)
    edges = [(mark.start_s, mark.end_s) for _, mark in marks] if trace.on_host else _on_device(trace, marks)
    windows = (Window(number, *edge) for (number, _), edge in zip(marks, edges, strict=True) if number != SEVERAL)
    return Steps(tuple(windows), found_by, begins_s=begins_s)


def _with_work(trace: RankTrace, marks: list[tuple[int, Mark]]) -> list[tuple[int, Mark]]:
    """Without the steps at both ends that have almost no work; those in between keep their time, but no number."""
    spans = trace.spans
    begun_s = spans.start_s if trace.on_host else spans.called_s
    edges_s = np.array([mark.start_s for _, mark in marks] + [marks[-1][1].end_s])
    place = np.searchsorted(edges_s, begun_s, side="right") - 1
    inside = (place >= 0) & (place < len(marks)) & np.isfinite(begun_s)
    work_s = np.bincount(place[inside], (spans.end_s - spans.start_s)[inside], len(marks))
    if not np.any(work_s > 0):
        return marks
    # Seconds alone would take quick steps for empty ones where most of the others were held up.
    full = np.flatnonzero(_many(work_s) | _many(np.bincount(place[inside], minlength=len(marks))))
    kept = range(int(full[0]), int(full[-1]) + 1)
    return [(marks[i][0] if i in full else SEVERAL, marks[i][1]) for i in kept]


def _many(amounts: Floats | Ints) -> Bools:
    """Which amounts are no small part of the middle one of those that are not nothing."""
    some = np.sort(amounts[amounts > 0])
    found: Bools = amounts >= EMPTY_FRAC * some[len(some) // 2]
    return found


def _on_device(trace: RankTrace, marks: list[tuple[int, Mark]]) -> list[tuple[float, float]]:
    """Where the device begins what was launched in each of the host's steps, and in the next one."""
    spans, (_, last) = trace.spans, marks[-1]
    begins_s = [mark.start_s for _, mark in marks]
    later_s = float(spans.start_s[spans.called_s >= last.end_s].min(initial=np.inf))
    mine = (spans.called_s >= last.start_s) & (spans.called_s < last.end_s)
    mine |= np.isnan(spans.called_s) & (spans.start_s < later_s)
    edges = [*_firsts(trace, begins_s), float(spans.end_s[mine].max(initial=last.end_s))]
    if len(marks) == 1 and not (spans.start_s < last.start_s).any():
        # A lone step is all that was recorded: waiting for its first launch is a part of it.
        edges[0] = last.start_s
    if any(high <= low for low, high in itertools.pairwise(edges)):
        edges = [*begins_s, last.end_s]
    return list(itertools.pairwise(edges))


def _firsts(trace: RankTrace, begins_s: list[float]) -> list[float]:
    """When the first operation of every step starts on any stream; where none is certain, the likely one."""
    found = np.full((2, len(begins_s)), np.inf)
    for stream in streams_of(trace, begins_s):
        ends = np.append(stream.first[1:], len(stream.span))
        runs = stream.first < ends
        start_s = np.full(len(begins_s), np.inf)
        start_s[runs] = trace.spans.start_s[stream.span[stream.first[runs]]]
        found[0] = np.minimum(found[0], np.where(stream.certain, start_s, np.inf))
        found[1] = np.minimum(found[1], start_s)
    likely = np.where(np.isfinite(found[0]), found[0], found[1])
    spans = trace.spans
    for i in np.flatnonzero(~np.isfinite(likely)).tolist():
        # A step that runs nothing begins when what was launched before it ends.
        likely[i] = float(spans.end_s[spans.called_s < begins_s[i]].max(initial=begins_s[i]))
    return [float(one) for one in likely]


def _sequence(trace: RankTrace) -> tuple[Floats, list[tuple[int, int, float]]]:
    """(starts, what) of all collectives."""
    spans = trace.spans.at(trace.spans.communicates)
    keys = zip(spans.op.tolist(), spans.group.tolist(), spans.size_B.tolist(), strict=True)
    return spans.start_s, list(keys)


def _periods(trace: RankTrace) -> list[float]:
    """Starts of repetitions of the sequence of collectives; none where it does not repeat."""
    start_s, keys = _sequence(trace)
    numbers = {key: i for i, key in enumerate(dict.fromkeys(keys))}
    code = np.array([numbers[key] for key in keys])
    # One kind of collective alone repeats with every one of them, which is no step.
    if len(numbers) < 2:
        return []
    for period in range(2, min(len(code) // 2, MOST_PERIOD) + 1):
        if np.mean(code[period:] == code[:-period]) > 0.99 and len(set(code[:period].tolist())) > 1:
            return [float(one) for one in start_s[::period]]
    return []


def _disagreement(trace: RankTrace, windows: tuple[Window, ...]) -> float:
    """Mean window over the device's own recurrence, minus 1, where more than 2 %."""
    chosen = used(windows)
    start_s, keys = _sequence(trace)
    if len(chosen) < 2 or not keys or trace.on_host:
        return 0.0
    firsts = []
    for window in chosen:
        inside = np.flatnonzero((start_s >= window.start_s) & (start_s < window.end_s)).tolist()
        firsts.append(next((float(start_s[i]) for i in inside if keys[i] == keys[inside[0]]), np.nan))
    gaps_s = np.diff(firsts)
    gaps_s = gaps_s[np.isfinite(gaps_s)]
    recurrence_s = float(np.median(gaps_s)) if len(gaps_s) else 0.0
    if recurrence_s <= 0:
        return 0.0
    found = float(np.median([one.seconds for one in chosen])) / recurrence_s - 1.0
    return found if abs(found) > 0.02 else 0.0
