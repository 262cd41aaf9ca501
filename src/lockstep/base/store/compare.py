"""Two runs side by side: words that differ, numbers of the answers, the series that both recorded."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from lockstep.base.records import dataclass
from lockstep.base.store.record import Record
from lockstep.base.types.plain import Json
from lockstep.base.types.shown import Shown


@dataclass(frozen=True, slots=True, repr=False)
class Comparison(Shown):
    """Differences of `second` against `first`."""

    first: Record
    second: Record

    @property
    def words(self) -> dict[str, tuple[Any, Any]]:
        """Words that were not asked alike; None where one does not have it."""
        one, other = self.first.words, self.second.words
        names = sorted(set(one) | set(other))
        return {name: (one.get(name), other.get(name)) for name in names if one.get(name) != other.get(name)}

    @property
    def numbers(self) -> dict[str, tuple[float, float]]:
        """Numbers that both answers have, by dotted key, in the first one's order."""
        one, other = dict(_numbers(self.first.result or {})), dict(_numbers(self.second.result or {}))
        return {key: (value, other[key]) for key, value in one.items() if key in other}

    @property
    def series(self) -> dict[str, tuple[list[float], list[float]]]:
        """Numbers that events of both carry, in the order recorded."""
        one, other = _series(self.first), _series(self.second)
        return {name: (values, other[name]) for name, values in one.items() if name in other}

    def to_dict(self) -> Json:
        """Plain JSON form; `change_frac` is second / first - 1, null where the first is 0."""
        rows = [
            {"number": key, "first": a, "second": b, "change_frac": change_frac(a, b)}
            for key, (a, b) in self.numbers.items()
        ]
        return {
            "first": self.first.id,
            "second": self.second.id,
            "words": {name: list(pair) for name, pair in self.words.items()},
            "rows": rows,
            "series": {name: {"first": a, "second": b} for name, (a, b) in self.series.items()},
        }


def change_frac(first: float, second: float) -> float | None:
    """second / first - 1; None where the first is 0."""
    return second / first - 1.0 if first else None


def compare(first: Record, second: Record) -> Comparison:
    """Both runs, as they are now."""
    return Comparison(first, second)


def _numbers(value: object, key: str = "") -> Iterator[tuple[str, float]]:
    """Numbers inside mappings, by dotted key."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _numbers(inner, f"{key}.{name}" if key else str(name))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield key, _float(value)


def _float(value: int | float) -> float:
    """The number as a float: infinite beyond those."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _series(record: Record) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for event in record.measurements:
        for name, value in _numbers(event):
            found.setdefault(name, []).append(value)
    return {name: values for name, values in found.items() if len(values) > 1}
