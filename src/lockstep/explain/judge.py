"""`judge`: whether a measured number is low for the layout that was described, and what would explain it if it is.

Numbers of one run are first held against one another, as their ratio needs no prediction; then against the interval of
the prediction. Only what lies outside it is explained: by readings of the number, and by single deviations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from lockstep.base.records import dataclass, replace
from lockstep.base.types.plain import Json, picked, plain
from lockstep.base.units import format_frac
from lockstep.decide.planner.estimate import Estimate
from lockstep.explain.deviations import Candidate, Heed, candidates, faster, silent
from lockstep.explain.far_off import conditions
from lockstep.explain.readings import SAME, Explained, explaining, inside, named_peak
from lockstep.explain.stated import MFU, QUANTITIES, RATE, TOKENS, Stated, said

AS_PREDICTED, SLOWER, FASTER, IMPOSSIBLE = "as predicted", "slower", "faster", "impossible"
SHOWN = 6
"""Candidates that are kept."""


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Two numbers of one run that cannot both hold by the same definitions, and the readings that reconcile them."""

    first: Stated
    other: Stated
    true: float
    """What the other would be, by the first."""
    readings: tuple[Explained, ...]

    @property
    def says(self) -> str:
        """A short description."""
        told = f"{self.other.said} contradicts {self.first.said}, by which it is {said(self.other.quantity, self.true)}"
        if not self.readings:
            ratio = self.true / self.other.value
            return f"{told}; no reading known here explains a ratio of {max(ratio, 1 / ratio):.3g}"
        return f"{told}: {self.readings[0].says}"

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self, "first other true readings says")


@dataclass(frozen=True, slots=True)
class Expected:
    """What was expected instead, and what would give it."""

    stated: Stated
    as_predicted: bool
    """Whether it is within the interval of the prediction, so that the layout may well give it."""
    readings: tuple[Explained, ...]
    """By which the expected number would be the measured one."""
    candidates: tuple[Candidate, ...]
    """Variants of the run that would give it."""

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self)


@dataclass(frozen=True, slots=True)
class Judged:
    """What a measured number says of a run."""

    measured: Stated
    """With the reading that was adopted."""
    adopted: Explained | None
    """The reading without which the number would be far from anything predicted."""
    step_time_s: float
    verdict: str
    contradictions: tuple[Contradiction, ...]
    remarks: tuple[str, ...]
    readings: tuple[Explained, ...]
    candidates: tuple[Candidate, ...]
    changes: tuple[Candidate, ...]
    """Variants that fit in memory and are faster than predicted for this layout."""
    expected: Expected | None
    conditions: tuple[str, ...] = ()
    """What would have to be true of a step many times as long as predicted."""

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return {name: plain(getattr(self, name)) for name in self.__slots__}


def judge(found: Estimate, numbers: Sequence[Stated], expected: Stated | None = None, heed: Heed = silent) -> Judged:
    """What `numbers` of one run say of it, as it is predicted; the first of QUANTITIES among them is the measured one.

    Args: `numbers`: at least one; `expected`: what a user hoped for; `heed`: is called before each variant of the run
    that is priced. Raises nothing but what pricing and `heed` raise.
    """
    ordered = sorted(numbers, key=lambda one: QUANTITIES.index(one.quantity))
    measured, adopted = _adopted(ordered[0], found)
    step_s = measured.step_time_s(found)
    whole = found.interval
    verdict = AS_PREDICTED if whole.low <= step_s <= whole.high else SLOWER if step_s > whole.high else FASTER
    if found.utilisation.causal_mfu_frac * found.step_time_s / step_s > 1:
        verdict = IMPOSSIBLE
    off = verdict != AS_PREDICTED
    likely = candidates(measured, found, heed)[:SHOWN] if verdict in (SLOWER, FASTER) else []
    return Judged(
        measured=measured,
        adopted=adopted,
        step_time_s=step_s,
        verdict=verdict,
        contradictions=tuple(_contradictions(measured, ordered[1:], found)),
        remarks=tuple(_remarks(ordered, found)),
        readings=tuple(inside(measured, found)) if off else (),
        candidates=tuple(likely),
        changes=tuple(faster(measured, found, heed)[:3]),
        expected=None if expected is None else _expected(expected, measured, found, heed),
        conditions=conditions(measured, found),
    )


def _adopted(one: Stated, found: Estimate) -> tuple[Stated, Explained | None]:
    """A rate of tokens that only per device (or node, or replica) is near the prediction is taken to be that.

    What a program calls tokens per second differs from program to program, so its unit is not known; FLOPs and times
    are only judged.
    """
    whole = found.interval
    if one.quantity != TOKENS or whole.low <= one.step_time_s(found) <= whole.high:
        return one, None
    near = [reading for reading in inside(one, found) if reading.name.startswith("tokens of")]
    return (replace(one, value=near[0].true), near[0]) if near else (one, None)


def _contradictions(first: Stated, others: Sequence[Stated], found: Estimate) -> list[Contradiction]:
    step_s, told = first.step_time_s(found), []
    for one in others:
        # An MFU is held against this device's own peak: which peak it was divided by is the question.
        plainly = replace(one, peak_flops=None)
        true = plainly.at(step_s, found)
        if abs(math.log(true / one.value)) > SAME:
            told.append(Contradiction(first, one, true, tuple(explaining(plainly, true / one.value, found))))
    return told


def _remarks(numbers: Sequence[Stated], found: Estimate) -> list[str]:
    peaks = {one.peak_flops for one in numbers if one.peak_flops}
    told = [name for peak in sorted(peaks) if (name := named_peak(peak, found)) is not None]
    by_name = {one.quantity: one for one in numbers}
    if told and RATE in by_name:
        mfu_frac = by_name[RATE].value / found.cluster.device.peak(found.job.recipe.dtype)
        told.append(f"Of the dense peak {by_name[RATE].said} are {said(MFU, mfu_frac)}.")
    if found.layout.recompute == "full":
        told.append(
            "Full recomputation runs every forward pass twice, which HFU counts and MFU does not: here "
            f"{found.utilisation}, and {format_frac(found.hfu_frac)} HFU."
        )
    return told


def _expected(expected: Stated, measured: Stated, found: Estimate, heed: Heed) -> Expected:
    """What would make the expected number of this run: another way to count it, or another run."""
    at = expected.at(measured.step_time_s(found), found)
    readings = explaining(expected, at / expected.value, found)
    usual = found.interval.low <= expected.step_time_s(found) <= found.interval.high
    likely = () if usual else tuple(candidates(expected, found, heed)[:SHOWN])
    return Expected(expected, usual, tuple(readings), likely)
