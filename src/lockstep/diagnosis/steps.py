"""Steps of a rank: `windows`, spans of time that follow one another without gaps, one per training step.

Where the host says its steps (`ProfilerStep#`, else the optimizer's annotation), a step on the device begins with the
first operation that was launched in the host's step: the device runs behind the host, and the annotation on the
device's side leaves out what other threads launched. Without annotations, steps are the period of the sequence of
collectives, and without that the trace is one step. The first step is left out where three or more are there, the last
one where four or more are: the profiler's start and end fall into them.

A second anchor: the device's own recurrence, the median time between the same collective of successive steps. Where it
differs from the windows by more than 2 %, `disagreement_frac` says by how much.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, replace

import numpy as np

from lockstep.diagnosis.trace import Mark, RankTrace
from lockstep.types.arrays import Floats

PROFILER_STEP = re.compile(r"^ProfilerStep#(\d+)$")
OPTIMIZER_STEP = re.compile(r"^Optimizer\.step#")
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

    def shifted(self, seconds: float) -> Window:
        """The same so many seconds later."""
        return replace(self, start_s=self.start_s + seconds, end_s=self.end_s + seconds)


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of a rank, in order, and how they were found."""

    windows: tuple[Window, ...]
    found_by: str
    disagreement_frac: float = 0.0
    """How much longer windows are than the device's own recurrence; 0 where both agree within 2 %."""


def steps_of(trace: RankTrace) -> Steps:
    """All steps of a rank, cut ones included."""
    marks = _numbered(trace)
    if marks:
        found = Steps(_on_host(marks) if trace.on_host else _on_device(trace, marks), "the profiler's steps")
    elif len(ends := [one for one in trace.marks if OPTIMIZER_STEP.match(one.name)]) > 1:
        name = ends[0].name
        edges = [one.end_s for one in ends if one.name == name]
        cut = [(i, Mark("", low, high)) for i, (low, high) in enumerate(itertools.pairwise(edges))]
        found = Steps(_on_device(trace, cut), "the optimizer's steps")
    elif edges := _periods(trace):
        found = Steps(
            tuple(Window(i, low, high) for i, (low, high) in enumerate(itertools.pairwise(edges))),
            "the period of its collectives",
        )
    else:
        spans = trace.spans
        found = Steps((Window(0, float(spans.start_s.min()), float(spans.end_s.max())),), "the whole trace")
    return replace(found, disagreement_frac=_disagreement(trace, found.windows))


def used(windows: tuple[Window, ...]) -> tuple[Window, ...]:
    """The steps that are told of: without the first of three or more, without the last of four or more."""
    low, high = int(len(windows) >= 3), len(windows) - int(len(windows) >= 4)
    return windows[low:high]


def _numbered(trace: RankTrace) -> list[tuple[int, Mark]]:
    """The profiler's own steps, by number."""
    found: dict[int, Mark] = {}
    for mark in trace.marks:
        if (match := PROFILER_STEP.match(mark.name)) and mark.end_s > mark.start_s:
            found.setdefault(int(match[1]), mark)
    return sorted(found.items())


def _on_host(marks: list[tuple[int, Mark]]) -> tuple[Window, ...]:
    """The same steps as the host says them, where the host computes too; what is between them is no step's."""
    return tuple(Window(number, mark.start_s, mark.end_s) for number, mark in marks)


def _on_device(trace: RankTrace, marks: list[tuple[int, Mark]]) -> tuple[Window, ...]:
    """The same steps where the device begins what was launched in each."""
    spans = trace.spans
    edges = []
    for _, mark in marks:
        launched = (spans.called_s >= mark.start_s) & (spans.called_s < mark.end_s)
        edges.append(_first(trace, np.flatnonzero(launched).tolist()) if launched.any() else mark.start_s)
    last = marks[-1][1]
    launched = (spans.called_s >= last.start_s) & (spans.called_s < last.end_s)
    edges.append(max(last.end_s, float(spans.end_s[launched].max(initial=last.end_s))))
    if any(high <= low for low, high in itertools.pairwise(edges)):
        edges = [mark.start_s for _, mark in marks] + [last.end_s]
    return tuple(
        Window(number, low, high) for (number, _), (low, high) in zip(marks, itertools.pairwise(edges), strict=True)
    )


def _first(trace: RankTrace, launched: list[int]) -> float:
    """Start of the first operation of a step, of which `launched` are known to be.

    Of operations right before those, whose launch is not known, any may be its first: the one after the longest pause.
    """
    spans, first = trace.spans, launched[0]
    low = first
    while low and np.isnan(spans.called_s[low - 1]):
        low -= 1
    if low == first:
        return float(spans.start_s[first])
    ended = float(spans.end_s[:low].max(initial=spans.start_s[low]))
    pauses = []
    for i in range(low, first + 1):
        pauses.append(float(spans.start_s[i]) - ended)
        ended = max(ended, float(spans.end_s[i]))
    return float(spans.start_s[low + int(np.argmax(pauses))])


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
    recurrence_s = float(np.nanmedian(np.diff(firsts)))
    if not np.isfinite(recurrence_s) or recurrence_s <= 0:
        return 0.0
    found = float(np.median([one.seconds for one in chosen])) / recurrence_s - 1.0
    return found if abs(found) > 0.02 else 0.0
