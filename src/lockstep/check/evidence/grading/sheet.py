"""`Sheet`: an exercise as a table, with numbers that every student has of their own, and laws of Lockstep for answers.

    given      a number for the whole table; the first choice is that of the statement
    input      what a row is about
    answer     what is asked; its law takes givens, inputs and earlier answers by name, in SI units
A law may also take `every_NAME`, the values of an input in all rows.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from functools import cache, cached_property
from hashlib import sha256

import numpy as np

from lockstep.base.errors import LockstepError
from lockstep.base.records import dataclass, field
from lockstep.base.types.arrays import Array
from lockstep.base.units import BANDWIDTH, BYTES, FLOPS, SECONDS

PERCENT = {"": 1.0, "%": 0.01, "percent": 0.01}
UNITS: dict[str, Mapping[str, float]] = {
    "time": SECONDS, "size": BYTES, "bandwidth": BANDWIDTH, "flops": FLOPS, "share": PERCENT, "count": {"": 1.0},
    "number": {"": 1.0},
}  # fmt: skip
"""Kind of a quantity -> its units."""
Values = Mapping[str, float]
Law = Callable[..., float]
Change = Callable[[float, Values], float]
Table = dict[str, Array]
"""Answer -> its value in every row [rows], not a number where there is none."""


@dataclass(frozen=True, slots=True)
class Column:
    """A quantity by its name, what it is in words, its kind (`UNITS`), and the unit in which the sheet writes it."""

    name: str
    what: str
    kind: str
    unit: str = ""

    @property
    def factor(self) -> float:
        """SI units in one of its own."""
        return UNITS[self.kind].get(self.unit, 1.0)

    @property
    def header(self) -> str:
        """As it stands over a column."""
        return f"{self.name}_{self.unit}" if self.unit else self.name

    @property
    def spoken(self) -> str:
        """Its name in a sentence."""
        return self.name.replace("_", " ")

    def written(self, value: float, digits: int = 4) -> str:
        """A value in SI units as the sheet writes it, without its unit."""
        shown = value / self.factor
        if not math.isfinite(shown):
            return str(shown)
        if abs(shown - round(shown)) < 1e-9 * max(1.0, abs(shown)) and abs(shown) < 1e9:
            return str(round(shown))
        return f"{shown:.{digits}g}" if 1e-4 <= abs(shown) < 10**digits else _plain(shown, digits)

    def shown(self, value: float, digits: int = 4) -> str:
        """The same with its unit."""
        return f"{self.written(value, digits)} {self.unit}".strip()


def _plain(number: float, digits: int) -> str:
    return f"{number:.0f}" if 1 <= abs(number) < 1e9 else f"{number:.{digits - 1}e}"


@dataclass(frozen=True, slots=True)
class Given(Column):
    """A number for the whole table; `choices` in its unit."""

    choices: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Input(Column):
    """What a row is about; `choices` are the rows, in its unit."""

    choices: tuple[tuple[float, ...], ...] = ()
    words: tuple[str, ...] = ()
    """Other names that students give it."""


@dataclass(frozen=True, slots=True)
class Answer(Column):
    """What is asked."""

    law: Law = float
    words: tuple[str, ...] = ()
    hidden: bool = False
    """Whether it is a step on the way that is not asked for."""


@dataclass(frozen=True, slots=True)
class Slip:
    """A mistake that is this exercise's own: the laws that stand in for the right ones."""

    words: str
    laws: Mapping[str, Law]


@dataclass(frozen=True)
class Sheet:
    """The table of an exercise."""

    id: str
    task: str
    """What is to be computed, in words that need no other page."""
    givens: tuple[Given, ...]
    inputs: tuple[Input, ...]
    answers: tuple[Answer, ...]
    slips: tuple[Slip, ...] = ()

    @property
    def asked(self) -> tuple[Answer, ...]:
        """The answers that stand in the table."""
        return tuple(one for one in self.answers if not one.hidden)

    @property
    def columns(self) -> tuple[Input | Answer, ...]:
        """Those of the table."""
        return (*self.inputs, *self.asked)

    def for_student(self, seed: int | None) -> Drawn:
        """The sheet with a student's own numbers; None: those of the statement."""
        rows = self.inputs[0].choices
        place = 0 if seed is None else _drawn(f"{self.id} rows {seed}", len(rows))
        values = {one.name: [value * one.factor for value in one.choices[place]] for one in self.inputs}
        number = {
            one.name: one.choices[0 if seed is None else _drawn(f"{self.id} {one.name} {seed}", len(one.choices))]
            * one.factor
            for one in self.givens
        }
        return Drawn(
            self, seed, number, tuple(dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True))
        )


def _drawn(text: str, number: int) -> int:
    """One of `number`, by a text: the same on every machine and in every version of Python."""
    return int.from_bytes(sha256(text.encode()).digest()[:8], "big") % number


@dataclass(frozen=True)
class Drawn:
    """A sheet with its numbers, in SI units."""

    sheet: Sheet
    seed: int | None
    givens: Mapping[str, float]
    rows: tuple[Mapping[str, float], ...]
    _known: dict[tuple[object, ...], float] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def truth(self) -> Table:
        """The right answers."""
        return self.answers()

    def answers(
        self,
        changed: Mapping[str, Change] | None = None,
        laws: Mapping[str, Law] | None = None,
        rows: tuple[Mapping[str, float], ...] | None = None,
    ) -> Table:
        """Answers where numbers are changed, or other laws stand in; what follows from an answer follows its change."""
        plain = [{**self.givens, **row} for row in (self.rows if rows is None else rows)]
        used = [{name: _changed(value, row, (changed or {}).get(name)) for name, value in row.items()} for row in plain]
        every = {f"every_{one.name}": tuple(row[one.name] for row in used) for one in self.sheet.inputs}
        found = [
            self._row({**row, **every}, was, changed or {}, laws or {}) for row, was in zip(used, plain, strict=True)
        ]
        return {one.name: np.array([row[one.name] for row in found]) for one in self.sheet.asked}

    def _row(
        self, values: dict[str, object], plain: Values, changed: Mapping[str, Change], laws: Mapping[str, Law]
    ) -> dict[str, float]:
        """Answers of a row, those that are not asked for included."""
        answers: dict[str, float] = {}
        for one in self.sheet.answers:
            value = self._value(laws.get(one.name, one.law), values | answers)
            answers[one.name] = _changed(value, plain, changed.get(one.name))
        return answers

    def _value(self, law: Law, values: Mapping[str, object]) -> float:
        taken = tuple(values[name] for name in _names(law))
        if (law, taken) not in self._known:
            self._known[law, taken] = _tried(law, *taken)
        return self._known[law, taken]


@cache
def _names(law: Law) -> tuple[str, ...]:
    """Names of what a law takes; what has a default is its own."""
    return tuple(one.name for one in inspect.signature(law).parameters.values() if one.default is one.empty)


def _changed(value: float, plain: Values, change: Change | None) -> float:
    return value if change is None else _tried(change, value, plain)


def _tried(law: Callable[..., float], *taken: object) -> float:
    """What it finds; not a number where the law does not hold for such values."""
    try:
        with np.errstate(all="ignore"):
            return float(law(*taken))
    except (LockstepError, ArithmeticError, ValueError, TypeError, IndexError):
        return math.nan


def counts(sheet: Sheet) -> Iterator[Given | Input]:
    """Givens and inputs that count something."""
    every: tuple[Given | Input, ...] = (*sheet.givens, *sheet.inputs)
    return (one for one in every if one.kind == "count")


def whole(number: float, most: float = math.inf) -> int:
    """A count as one. Raises ValueError where it is none, or beyond `most`, so that a law has no value there."""
    if number != int(number) or number > most:
        raise ValueError(f"{number} is no count, or too large")
    return int(number)
