"""`Rows`: the answers to one question for every combination of several values, the last option fastest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

from lockstep.errors import BadInput, Infeasible

MOST_ROWS = 100_000
Point = Mapping[str, Any]
Number = int | float


@dataclass(frozen=True, slots=True)
class Row:
    """One combination of values, and its answer as plain data or why there is none."""

    given: Point
    """By option, the value as given."""
    point: Point
    """By option, the value in SI units."""
    answer: Mapping[str, Any] | None
    why: str = ""

    def to_dicts(self) -> list[dict[str, Any]]:
        """Plain JSON form: an answer that is rows itself gives one object for each of them."""
        if self.answer is None:
            return [{**self.point, "why": self.why}]
        inner = self.answer.get("rows")
        if not isinstance(inner, list) or not all(isinstance(one, Mapping) for one in inner):
            return [{**self.point, **self.answer}]
        return [{**self.point, **one} for one in inner]


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a verb, those that were answered before Ctrl-C."""

    verb: str
    options: tuple[str, ...]
    """The options that were given several values."""
    rows: tuple[Row, ...]
    asked: int
    """Combinations that were asked for."""

    @property
    def complete(self) -> bool:
        """Whether every combination was tried."""
        return len(self.rows) == self.asked

    @property
    def ok(self) -> bool:
        """Whether any combination has an answer."""
        return any(row.answer is not None for row in self.rows)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        return {
            "verb": self.verb,
            "options": list(self.options),
            "complete": self.complete,
            "rows": [one for row in self.rows for one in row.to_dicts()],
        }

    def differing(self) -> list[str]:
        """Dotted keys of the numbers that differ between rows, in the order of the answer."""
        flat = [dict(numbers(row.answer)) for row in self.rows if row.answer is not None]
        keys = dict.fromkeys(key for one in flat for key in one if key not in self.options)
        return [key for key in keys if len({one.get(key) for one in flat}) > 1]


def numbers(answer: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Number]]:
    """Dotted keys and numbers of an answer; of lists nothing."""
    for key, value in answer.items():
        if isinstance(value, Mapping):
            yield from numbers(value, f"{before}{key}.")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield f"{before}{key}", value


def answer_rows(
    verb: str,
    lists: Mapping[str, Sequence[tuple[Any, Any]]],
    ask: Callable[[Point], Any],
    progress: Callable[[int, int], None] | None = None,
) -> Rows:
    """Asks for every combination of `lists`: by option, (value as given, value in SI units).

    A combination that is refused or infeasible is a row that says why; the first refusal is raised where no combination
    has an answer. Ctrl-C ends with the rows known by then, or is passed on before the first. Raises BadInput for more
    than MOST_ROWS combinations.
    """
    asked = prod(len(values) for values in lists.values())
    if asked > MOST_ROWS:
        raise BadInput(f"{asked:,} combinations; at most {MOST_ROWS:,}, take fewer values", f"--{next(iter(lists))}")
    rows: list[Row] = []
    refused: BadInput | None = None
    try:
        for combination in product(*lists.values()):
            given = {name: pair[0] for name, pair in zip(lists, combination, strict=True)}
            point = {name: pair[1] for name, pair in zip(lists, combination, strict=True)}
            try:
                rows.append(Row(given, point, ask(given).to_dict()))
            except (BadInput, Infeasible) as error:
                refused = refused or (error if isinstance(error, BadInput) else None)
                rows.append(Row(given, point, None, str(error)))
            if progress:
                progress(len(rows), asked)
    except KeyboardInterrupt:
        if not rows:
            raise
    if refused is not None and all(row.answer is None for row in rows):
        raise refused
    return Rows(verb, tuple(lists), tuple(rows), asked)
