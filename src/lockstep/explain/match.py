"""How the collectives of one group lie against each other on two ranks: `match` finds the shift, offset and drift.

Members of a group run the same sequence of collectives, and a collective ends for all of them at the same moment. The
sequences of (collective, bytes) are laid against each other at every shift within reach, as profilers start at
different moments; shifts at which at least 99 % of the names agree are candidates. Of those the one counts whose end
differences vary least around a line, which is the second clock over the first; where several vary as little (a step
repeats), the one that agrees with the numbers of the steps, then the one with the smallest offset.

    ends apart    offset_s + drift_frac * time; the slope from the medians of the first and the last third, and 0 unless
                  it halves the end skew
    end skew      median distance of the end differences from that line: the test of the match
    accepted      if the end skew is below 50 us, or 5 % of the collectives' median duration

Source of the test by end skew: vLLM RFC 52777 and TraceLens' collective analysis (AMD, 2025).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Floats, Ints
from lockstep.explain.steps import Window

AGREE_FRAC = 0.99
SKEW_S, SKEW_FRAC = 50e-6, 0.05
HOST_SKEW_S = 10e-3
"""Of runs on CPUs, whose threads hear of an end when they are scheduled."""
REACH = 64
"""Collectives by which starts of two profilers may differ beyond what the steps' numbers say."""
LEAST = 2
LEAST_DRIFT = 2
"""Collectives in a third of a sequence that a slope is read from."""
DRIFTS_S, MOST_DRIFT_FRAC = 1e-6, 1e-3
"""Ends that lie less apart need no slope; quartz clocks of hosts are a hundred times nearer than the most allowed."""


@dataclass(frozen=True, slots=True)
class Clock:
    """From one clock to another, in seconds: `rate` times the first one and `offset_s`."""

    rate: float = 1.0
    offset_s: float = 0.0

    def after(self, other: Clock) -> Clock:
        """Through another clock first."""
        return Clock(self.rate * other.rate, self.rate * other.offset_s + self.offset_s)


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
    """The second rank's clock less the first's, at `middle_s` of the first."""
    skew_s: float
    agree_frac: float
    count: int
    duration_s: float
    least_s: float = SKEW_S
    """Ends of one collective lie at least so far apart on hosts, where threads see them."""
    drift_frac: float = 0.0
    """By how much more than 1 s the second clock goes on in 1 s of the first."""
    middle_s: float = 0.0

    @property
    def first(self) -> Clock:
        """From the second rank's clock to the first's."""
        rate = 1.0 / (1.0 + self.drift_frac)
        return Clock(rate, rate * (self.drift_frac * self.middle_s - self.offset_s))

    @property
    def second(self) -> Clock:
        """From the first rank's clock to the second's."""
        return Clock(1.0 + self.drift_frac, self.offset_s - self.drift_frac * self.middle_s)

    @property
    def accepted(self) -> bool:
        """Whether ends meet."""
        return self.agree_frac >= AGREE_FRAC and self.skew_s <= self.tolerance_s

    @property
    def tolerance_s(self) -> float:
        """By how much ends of one collective may lie apart."""
        return max(self.least_s, SKEW_FRAC * self.duration_s)


def match(one: Collectives, two: Collectives, offset_s: float, apart_s: tuple[float, float] | None) -> Match | None:
    """The best shift of `two` against `one`; None where no names agree.

    `offset_s`: how much later the second clock's zero is. `apart_s`: how much later steps of the same number begin in
    the second trace, and half a step; None where no steps are numbered alike.
    """
    likely = by_step(one, two)
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
        skew, drift, middle_s = _line(one.end_s[low:high], ends)
        duration = float(np.median(one.end_s[low:high] - one.start_s[low:high]))
        here = Match(shift, end_s, skew, agree, high - low, duration, drift_frac=drift, middle_s=middle_s)
        # Names that do not agree count as ends that do not meet.
        found.append((here, skew + (1.0 - agree)))
    if not found:
        return None
    least = min(cost for _, cost in found)
    close = [one for one, cost in found if cost <= 2.0 * least + 1e-6]
    return min(close, key=lambda m: (m.shift not in likely if likely else False, abs(m.offset_s + offset_s)))


def _line(time_s: Floats, ends_s: Floats) -> tuple[float, float, float]:
    """(skew of end differences from their line, its slope, the time at which it is their median)."""
    end_s, middle_s = float(np.median(ends_s)), float(np.median(time_s))
    skew_s = float(np.median(np.abs(ends_s - end_s)))
    third = len(time_s) // 3
    if third < LEAST_DRIFT or skew_s < DRIFTS_S:
        return skew_s, 0.0, middle_s
    times, ends = (float(np.median(of[-third:]) - np.median(of[:third])) for of in (time_s, ends_s))
    slope = ends / times if times > 0 else 0.0
    left_s = float(np.median(np.abs(ends_s - end_s - slope * (time_s - middle_s))))
    return (
        (left_s, slope, middle_s) if left_s < skew_s / 2 and abs(slope) < MOST_DRIFT_FRAC else (skew_s, 0.0, middle_s)
    )


def listed(one: Collectives, two: Collectives, offset_s: float) -> Match | None:
    """The match of two ranks of one table, which are on one clock and list the same operations."""
    count = min(len(one.code), len(two.code))
    agree = float(np.mean(one.code[:count] == two.code[:count])) if count else 0.0
    return Match(0, -offset_s, 0.0, agree, count, 0.0) if agree >= AGREE_FRAC else None


def by_step(one: Collectives, two: Collectives) -> set[int]:
    """Shifts at which the last collectives of a step that both have whole lie on each other."""
    found = set()
    for step in (set(one.step.tolist()) & set(two.step.tolist())) - {-1}:
        found.add(int(np.flatnonzero(two.step == step)[-1] - np.flatnonzero(one.step == step)[-1]))
    return found


def apart(one: Sequence[Window], two: Sequence[Window]) -> tuple[float, float] | None:
    """How much later the steps of the same numbers begin in the second, and half a step; None where none is in both."""
    starts = {w.step: w for w in one}
    both = [(starts[w.step], w) for w in two if w.step in starts]
    if not both:
        return None
    later = [w.start_s - first.start_s for first, w in both]
    return float(np.median(later)), 0.5 * float(np.median([first.seconds for first, _ in both]))
