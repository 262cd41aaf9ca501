"""Where two algorithms tie: sizes at which the faster one changes, in the predictions and in the measurements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations, pairwise
from typing import Any, Protocol

SAME_FRAC = 0.005
"""Predictions nearer to one another than this at all sizes are taken for equal."""


class Timed(Protocol):
    """An algorithm at a size."""

    @property
    def algorithm(self) -> str: ...
    @property
    def size_B(self) -> int: ...
    @property
    def predicted_s(self) -> float: ...
    @property
    def measured_s(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Crossing:
    """Two algorithms and the first size at which they tie; None where they do not within the sizes."""

    first: str
    second: str
    predicted_B: float | None
    measured_B: float | None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        return asdict(self)


def crossings(laps: Sequence[Timed]) -> tuple[Crossing, ...]:
    """All pairs of algorithms whose order changes between two neighbouring sizes, predicted or measured."""
    names = tuple(dict.fromkeys(lap.algorithm for lap in laps))
    found = (_crossing(laps, first, second) for first, second in combinations(names, 2) if _differ(laps, first, second))
    return tuple(one for one in found if one.predicted_B is not None or one.measured_B is not None)


def _differ(laps: Sequence[Timed], first: str, second: str) -> bool:
    """Whether the predictions differ at all: equal ones are in an order that only noise decides."""
    one, other = ({lap.size_B: lap.predicted_s for lap in laps if lap.algorithm == name} for name in (first, second))
    return any(abs(one[size_B] - other[size_B]) > SAME_FRAC * one[size_B] for size_B in set(one) & set(other))


def _crossing(laps: Sequence[Timed], first: str, second: str) -> Crossing:
    one, other = ({lap.size_B: lap for lap in laps if lap.algorithm == name} for name in (first, second))
    sizes = sorted(set(one) & set(other))
    predicted = [one[size_B].predicted_s - other[size_B].predicted_s for size_B in sizes]
    measured = [one[size_B].measured_s - other[size_B].measured_s for size_B in sizes]
    return Crossing(first, second, tie_B(sizes, predicted), tie_B(sizes, measured))


def tie_B(sizes_B: Sequence[float], lead_s: Sequence[float]) -> float | None:
    """The first size at which `lead_s` changes its sign, straight between neighbours; None when it never does."""
    for (low_B, low_s), (high_B, high_s) in pairwise(zip(sizes_B, lead_s, strict=True)):
        if low_s * high_s < 0:
            return low_B + (high_B - low_B) * low_s / (low_s - high_s)
    return None
