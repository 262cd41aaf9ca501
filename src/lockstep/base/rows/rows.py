"""`Rows`: the answers to one question for every combination of several values, the last option fastest.

`listed`: lists and ranges in the place of one value.

    1MB,10MB,100MB     each of these
    4..64              whole numbers from 4 to 64
    2..1024x2          from 2 on, doubled until 1024 is reached
    0..1+0.25          from 0 in steps of 0.25 to 1

The ends of a range may have units; the values then have that of the first end. From Python any sequence of values is a
list as well. An option that takes several numbers for one answer, such as one time per stage, separates values by `;`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cached_property
from typing import Any, Protocol

from lockstep.base.errors import CTRL_C, BadInput
from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json, as_written, picked
from lockstep.base.types.shown import Shown
from lockstep.base.units import NUMBER

MOST_VALUES = 10_000
RANGE = re.compile(r"([-+.\d].*?)\.\.(.*?)(?:([x+])([^x+]+))?")
NEARLY = 1 + 1e-9
Point = Mapping[str, Any]
Number = int | float


def listed(given: object, units: Mapping[str, float], where: str, *, vector: bool = False) -> tuple[Any, ...] | None:
    """The values of a list or range, each once in the order given; None for one value.

    `units` are those that an end of a range may have, with their factors. Raises BadInput at `where` for an empty list,
    a range that is badly written or runs backwards, and for more than MOST_VALUES.
    """
    if isinstance(given, str):
        parts = [part.strip() for part in given.split(";" if vector else ",")]
        if len(parts) == 1 and (vector or not RANGE.fullmatch(parts[0])):
            return None
        if not all(parts):
            raise BadInput(f"nothing stands before, after or between the separators of {given[:60]!r}", where)
        found = parts if vector else [value for part in parts for value in _values(part, units, where)]
    elif isinstance(given, Sequence) and not isinstance(given, bytes | bytearray) and not vector:
        found = list(given)
        if not found:
            raise BadInput("an empty list has no answer", where)
    else:
        return None
    values = tuple(dict.fromkeys(found))
    return _few(values, where)


def _few(values: tuple[object, ...], where: str) -> tuple[Any, ...]:
    if len(values) > MOST_VALUES:
        raise BadInput(f"{len(values):,} values; at most {MOST_VALUES:,}", where)
    return values


def _values(part: str, units: Mapping[str, float], where: str) -> list[str]:
    """The values of one part of a list."""
    found = RANGE.fullmatch(part)
    if found is None:
        return [part]
    low, high, kind, step = found.groups()
    (first, unit), (last, last_unit) = (_number(end, units, where) for end in (low, high))
    last *= Decimal(units[last_unit]) / Decimal(units[unit]) if last_unit and last_unit != unit else 1
    numbers = _growing(first, last, step, where) if kind == "x" else _stepping(first, last, step, where)
    return [f"{number.normalize():f}{unit}" for number in numbers]


def _number(text: str, units: Mapping[str, float], where: str) -> tuple[Decimal, str]:
    found = NUMBER.fullmatch(text)
    if found is None or (found[2] or "") not in units:
        raise BadInput(f"{text.strip()[:60]!r} cannot be an end of a range; write one like 4..64 or 1MB..1GBx2", where)
    return Decimal(found[1].replace("_", "")), found[2] or ""


def _growing(first: Decimal, last: Decimal, step: str | None, where: str) -> list[Decimal]:
    """From `first` on, each `step` times the one before."""
    factor = _step(step, where)
    if factor <= 1 or first <= 0 or last < first:
        raise BadInput(
            f"a range {first}..{last}x{step} needs a positive start, an end above it and a factor above 1", where
        )
    count = int(math.log(float(last / first) * NEARLY) / math.log(float(factor))) + 1
    _few((0,) * min(count, MOST_VALUES + 1), where)
    return [first * factor**power for power in range(count)]


def _stepping(first: Decimal, last: Decimal, step: str | None, where: str) -> list[Decimal]:
    """From `first` on in equal steps, of 1 where none is given."""
    size = Decimal(1) if step is None else _step(step, where)
    if size <= 0 or last < first:
        raise BadInput(f"{first}..{last} needs an end above its start and a step above 0", where)
    count = int(float((last - first) / size) * NEARLY) + 1
    _few((0,) * min(count, MOST_VALUES + 1), where)
    return [first + size * place for place in range(count)]


def _step(text: str | None, where: str) -> Decimal:
    try:
        return Decimal(str(text).strip())
    except ArithmeticError:
        raise BadInput(f"{str(text)[:60]!r} is not a step; write 2..1024x2 or 0..1+0.25", where) from None


class Unread(Protocol):
    """An answer that works out its plain form when it is asked for it, each value alone or all of them."""

    def plain_value(self, name: str) -> Any:
        """One value."""

    def to_dict(self) -> Json:
        """All of them."""


class Answer:
    """An answer in plain form, or one that is brought into it when somebody reads it."""

    def __init__(self, found: Json | Unread) -> None:
        self._found = found

    @cached_property
    def plain(self) -> Json:
        """The whole answer, as an engine hands it over and JSON writes it."""
        return self._found if isinstance(self._found, dict) else as_written(self._found.to_dict())

    def value(self, name: str) -> Any:
        """The value of one name; None where the answer has none."""
        if isinstance(self._found, dict) or "plain" in self.__dict__:
            return self.plain.get(name)
        return as_written(self._found.plain_value(name))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Answer) and self.plain == other.plain

    def __repr__(self) -> str:
        return f"Answer({self.plain!r})"


@dataclass(frozen=True, slots=True)
class Row:
    """One combination of values, and its answer or why there is none."""

    given: Point
    """By option, the value as given."""
    point: Point
    """By option, the value in SI units."""
    found: Answer | None
    why: str = ""

    @property
    def answer(self) -> Json | None:
        """The whole answer as plain data; None where there is none."""
        return None if self.found is None else self.found.plain

    def figure(self, key: str) -> Any:
        """The value at a dotted key of the answer, without the rest of it: `memory.total_B`, `plans.0.step_time_s`.

        None where the answer has none, or there is no answer.
        """
        name, _, rest = key.partition(".")
        value = None if self.found is None else self.found.value(name)
        return at(value, rest) if rest else value

    def to_dicts(self) -> list[Json]:
        """Plain JSON form: an answer that is rows itself gives one object for each of them.

        Of a table over the option itself only the row of the value asked for, where it has that. What was asked stays
        as it was asked: two sizes of a cluster have one name in their answers.
        """
        answer = self.answer
        if answer is None:
            return [{**self.point, "why": self.why}]
        inner = answer.get("rows")
        if not isinstance(inner, list) or not all(isinstance(one, Mapping) for one in inner):
            inner = [answer]
        own = [one for one in inner if all(one.get(name, value) == value for name, value in self.point.items())]
        return [{**self.point, **one, **self.point} for one in own or inner]


@dataclass(frozen=True, slots=True, repr=False)
class Rows(Shown):
    """The rows of a verb, those that were answered before it was stopped."""

    verb: str
    options: tuple[str, ...]
    """The options that were given several values."""
    rows: tuple[Row, ...]
    asked: int
    """Combinations that were asked for."""
    stopped: str = ""
    """Why it ended before all were answered, if it did."""

    @property
    def complete(self) -> bool:
        """Whether every combination was tried."""
        return len(self.rows) == self.asked

    @property
    def ok(self) -> bool:
        """Whether any combination has an answer, and nothing but a person ended it early."""
        return self.stopped in ("", CTRL_C) and any(row.found is not None for row in self.rows)

    def to_dict(self) -> Json:
        """Plain JSON form."""
        rows = [one for row in self.rows for one in row.to_dicts()]
        return picked(self, "verb options complete stopped") | {"rows": rows}

    def differing(self) -> list[str]:
        """Dotted keys of the numbers that differ between rows, in the order of the answer."""
        flat = [dict(numbers(row.answer)) for row in self.rows if row.answer is not None]
        keys = dict.fromkeys(key for one in flat for key in one if key not in self.options)
        return [key for key in keys if len({one.get(key) for one in flat}) > 1]


def at(answer: object, key: str) -> Any:
    """What a dotted key leads to, None where it leads nowhere; a number picks from a list."""
    value: Any = answer
    for part in key.split("."):
        if isinstance(value, Mapping):
            value = value.get(part)
        elif isinstance(value, Sequence) and not isinstance(value, str) and value:
            value = value[int(part)]
        else:
            return None
    return value


def numbers(answer: Mapping[str, object], before: str = "") -> Iterator[tuple[str, Number]]:
    """Dotted keys and numbers of an answer; of lists nothing."""
    for key, value in answer.items():
        if isinstance(value, Mapping):
            yield from numbers(value, f"{before}{key}.")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield f"{before}{key}", value
