"""`streams_of`: which operation of every stream is the first of each step, where profilers lost some launches.

A stream runs its operations in the order of their launches, so the first operation of a step is in doubt only between
the last one known to be launched before the step and the first one known to be launched in it. Steps repeat: one number
of operations per step that fits what is known of all steps settles most of these. Where several numbers fit, the one
after the longest pauses counts; where none does, the longest pause does, step by step.

By the same repetition `refilled` takes the group, collective, size and peer that an operation lost from the operations
at its place in other steps, if these agree, and estimates its launch.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lockstep.base.records import dataclass, replace
from lockstep.base.types.arrays import Array, Bools, Floats, Ints
from lockstep.explain.trace import RankTrace, Spans

MOST_FITS = 10_000
"""Ways in which steps may lie that are compared; a stream that leaves more open is left to its pauses."""
COLUMNS = ("group", "op", "size_B", "peer")


@dataclass(frozen=True, slots=True)
class Stream:
    """The operations of one stream by steps."""

    span: Ints
    """Their places in the trace's spans, in order."""
    first: Ints
    """Place in `span` of the first operation of every step; its length where none follows. `[steps]`"""
    certain: Bools
    """Whether `first` follows from launches and repetition, or is only likely. `[steps]`"""
    period: int
    """Operations from one step's first to the next one's; 0 where that differs or is not known."""


def streams_of(trace: RankTrace, begins_s: Sequence[float]) -> list[Stream]:
    """The streams that have known launches. `begins_s`: when the host began each step."""
    spans, found = trace.spans, []
    for number in np.unique(spans.stream).tolist():
        span = np.flatnonzero(spans.stream == number)
        known = np.flatnonzero(np.isfinite(spans.called_s[span]))
        if len(known):
            step = np.searchsorted(np.array(begins_s), spans.called_s[span][known], side="right") - 1
            found.append(_stream(span, *_bounds(known, step, len(begins_s), len(span)), _pauses(trace, span)))
    return found


def _bounds(known: Ints, step: Ints, steps: int, count: int) -> tuple[Ints, Ints]:
    """(earliest, latest) first operation of every step, from the `step` in which `known` operations were launched."""
    reached = np.maximum.accumulate(step)
    at = np.searchsorted(reached, np.arange(steps))
    latest = np.append(known, count)[at]
    earliest = np.where(at > 0, known[np.maximum(at, 1) - 1] + 1, 0)
    return earliest, latest


def _pauses(trace: RankTrace, span: Ints) -> Floats:
    """Seconds for which the stream ran nothing before each of its operations, and 0 after the last."""
    start, end = trace.spans.start_s[span], np.maximum.accumulate(trace.spans.end_s[span])
    return np.concatenate(([0.0], start[1:] - end[:-1], [0.0]))


def _stream(span: Ints, earliest: Ints, latest: Ints, pause_s: Floats) -> Stream:
    fits = _fits(earliest, latest)
    if not len(fits):
        between = zip(earliest.tolist(), latest.tolist(), strict=True)
        first = np.array([low + int(np.argmax(pause_s[low : high + 1])) for low, high in between])
        return Stream(span, first, earliest == latest, 0)
    firsts = fits[:, :1] + fits[:, 1:] * np.arange(len(earliest))
    best = int(np.argmax(pause_s[firsts].sum(axis=1)))
    certain = (firsts == firsts[0]).all(axis=0)
    one_period = bool((fits[:, 1] == fits[0, 1]).all())
    return Stream(span, firsts[best], certain, int(fits[0, 1]) if one_period else 0)


def _fits(earliest: Ints, latest: Ints) -> Ints:
    """All (first operation of the first step, operations per step) within the bounds of all steps, `[fits, 2]`."""
    number, rows = np.arange(len(earliest)), []
    low = max(1, int(np.max(earliest[1:] - latest[:-1], initial=1)))
    high = int(np.min(latest[1:] - earliest[:-1], initial=low + MOST_FITS))
    for period in range(low, high + 1) if high - low < MOST_FITS else ():
        begin, end = int((earliest - number * period).max()), int((latest - number * period).min())
        rows += [(one, period) for one in range(begin, min(end, begin + MOST_FITS) + 1)]
        if len(rows) > MOST_FITS:
            return np.zeros((0, 2), dtype=np.int64)
    return np.array(rows, dtype=np.int64).reshape(-1, 2)


def refilled(trace: RankTrace, begins_s: Sequence[float]) -> RankTrace:
    """The trace with what operations lost, as far as the operations at their places in other steps agree on it."""
    spans, lost = trace.spans, trace.lost_group
    unknown = ~np.isfinite(spans.called_s) & (not trace.graphs)
    changed: dict[str, Array] = {}
    for stream in streams_of(trace, begins_s) if lost.any() or unknown.any() else ():
        span = stream.span
        if not stream.period or not (lost[span].any() or unknown[span].any()):
            continue
        place = np.arange(len(span)) % stream.period
        alike = _agreed(place, spans.name[span], np.ones(len(place), dtype=bool))[0]
        if lost[span].any():
            found = {name: _agreed(place, getattr(spans, name)[span], ~lost[span]) for name in COLUMNS}
            fills = np.logical_and.reduce([alike, lost[span], *(agrees for agrees, _ in found.values())])
            for name, (_, value) in found.items():
                changed.setdefault(name, getattr(spans, name).copy())[span[fills]] = value[fills]
        if unknown[span].any():
            called_s = changed.setdefault("called_s", spans.called_s.copy())
            called_s[span] = _launches(spans.at(span), place, alike, _bounds_s(trace, stream, begins_s))
    return replace(trace, spans=replace(spans, **changed)) if changed else trace


def _bounds_s(trace: RankTrace, stream: Stream, begins_s: Sequence[float]) -> tuple[Floats, Floats]:
    """(earliest, latest) launch of operations: between their neighbours', and in their step where that is certain."""
    low, high = (each[stream.span] for each in trace.launched_s)
    if not stream.certain.all():
        return low, high
    edges = np.array([-np.inf, *begins_s, np.inf])
    step = (np.arange(len(low)) - stream.first[0]) // stream.period
    at = np.clip(step + 1, 0, len(begins_s))
    return np.maximum(low, edges[at]), np.minimum(high, np.nextafter(edges[at + 1], -np.inf))


def _agreed(place: Ints, value: Array, known: Bools) -> tuple[Bools, Array]:
    """(whether the known values at the place of each operation are one, that value)."""
    low, high = np.full(place.max() + 1, np.inf), np.full(place.max() + 1, -np.inf)
    np.minimum.at(low, place[known], value[known])
    np.maximum.at(high, place[known], value[known])
    return (low == high)[place], low[place]


def _launches(spans: Spans, place: Ints, alike: Bools, bounds_s: tuple[Floats, Floats]) -> Floats:
    """Launches of a stream's operations, of which those that were lost are estimated from other steps.

    A lost launch is as long before its operation's start as at its place in other steps, within its bounds. Neither
    bound alone would do: with the latest launch the host would seem late wherever the device waited for something else,
    with the earliest it never would. Where no step knows the launch, it stays unknown.
    """
    called_s, known = spans.called_s.copy(), np.isfinite(spans.called_s)
    for i in np.flatnonzero(~known & alike).tolist():
        mates = np.flatnonzero(known & (place == place[i]))
        if len(mates):
            lead_s = float(np.median(spans.start_s[mates] - spans.called_s[mates]))
            called_s[i] = min(max(spans.start_s[i] - lead_s, bounds_s[0][i]), bounds_s[1][i])
    return called_s
