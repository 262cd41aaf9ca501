"""`Stated`: a number that somebody measured, read or expected, and the seconds of a step that it means.

    s = t q(t) / value                 of a rate q: tokens per second, FLOP/s, MFU
    s = value                          of a time

t predicted seconds of a step, q(t) the rate predicted for it, by the definitions that `estimate` states. An MFU of
another peak than the device's dense one is first turned into one of that.
"""

from __future__ import annotations

from collections.abc import Mapping

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json, picked
from lockstep.base.units import (
    COUNT,
    FLOPS,
    FRACTION,
    NUMBER,
    TIME,
    format_count,
    format_flops,
    format_frac,
    format_time,
    parse_count,
    parse_flops,
    parse_frac,
    parse_time_s,
)
from lockstep.decide.planner.estimate import Estimate

TIME_S, TOKENS, RATE, MFU = QUANTITIES = ("step_time_s", "tokens_per_s", "model_flops_per_gpu_per_s", "mfu_frac")
"""The first that is given is what was measured; the others are checked against it."""
PARSERS = {TIME_S: parse_time_s, TOKENS: parse_count, RATE: parse_flops, MFU: parse_frac}
TERA = 1e12
LEAST_FLOPS = 1e6
"""Below this a rate without a unit is in TFLOP/s, as training programs print it."""


@dataclass(frozen=True, slots=True)
class Stated:
    """A number about a step."""

    quantity: str
    """One of QUANTITIES."""
    value: float
    """In SI units."""
    peak_flops: float | None = None
    """FLOP/s that an MFU was divided by, where that is known."""

    def predicted(self, found: Estimate) -> float:
        """The same quantity as predicted."""
        if self.quantity == MFU and self.peak_flops:
            return found.model_flops_per_gpu_per_s / self.peak_flops
        return float(getattr(found, self.quantity))

    def step_time_s(self, found: Estimate) -> float:
        """Seconds of a step that it means."""
        return self.value if self.quantity == TIME_S else found.step_time_s * self.predicted(found) / self.value

    def at(self, step_s: float, found: Estimate) -> float:
        """What it would be for a step of `step_s` seconds."""
        return step_s if self.quantity == TIME_S else self.predicted(found) * found.step_time_s / step_s

    @property
    def said(self) -> str:
        """With its unit: `296.5 TFLOP/s`."""
        return said(self.quantity, self.value)

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self)


def said(quantity: str, value: float) -> str:
    """A quantity as a person says it."""
    if quantity == TIME_S:
        return f"{format_time(value, 4)} per step"
    if quantity == TOKENS:
        return f"{format_count(value, 4)} tokens/s"
    return format_flops(value, 4) if quantity == RATE else f"{format_frac(value, 4)} MFU"


def read(quantity: str, given: object, where: str, peak_flops: float | None = None) -> Stated:
    """A number given for a quantity, with or without a unit. Raises BadInput."""
    value = PARSERS[quantity](given, where)
    if quantity == RATE and 0 < value < LEAST_FLOPS and _bare(given):
        value *= TERA
    if quantity == MFU and value >= 1 and _bare(given):
        raise BadInput(f"write {given}% or {value / 100:g}; got {given}", where)
    if value <= 0:
        raise BadInput(f"must be more than zero, got {given}", where)
    return Stated(quantity, value, peak_flops if quantity == MFU else None)


def read_like(given: object, like: Stated, where: str) -> Stated:
    """A number whose unit tells which quantity it is; without one, the same as `like`. Raises BadInput."""
    unit = _unit(given)
    kinds: Mapping[str, Mapping[str, float]] = {MFU: FRACTION, TIME_S: TIME, TOKENS: COUNT, RATE: FLOPS}
    if not unit or unit in kinds[like.quantity]:
        return read(like.quantity, given, where, like.peak_flops)
    known = [quantity for quantity, units in kinds.items() if unit in units]
    if not known:
        raise BadInput(f"{given!r} is not a number like {like.said}, a file, or case:NAME", where)
    return read(known[0], given, where, like.peak_flops)


def _unit(given: object) -> str:
    found = NUMBER.fullmatch(given.strip()) if isinstance(given, str) else None
    return (found[2] or "").strip() if found else ""


def _bare(given: object) -> bool:
    return not _unit(given)
