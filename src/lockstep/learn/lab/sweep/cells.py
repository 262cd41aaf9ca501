"""`Cell`: one value of a table over many seeds, in a form that stays small and adds up block by block.

    mean      m = sum n_b m_b / n
    spread    S = sum S_b + sum n_b (m_b - m)^2, by pairs: S = S_1 + S_2 + (m_2 - m_1)^2 n_1 n_2 / (n_1 + n_2)

n_b values with mean m_b and squared deviations S_b in block b. Blocks are added in the order of their seeds, so the
sums are the same wherever and whenever the runs were made.

Source: T. F. Chan, G. H. Golub, R. J. LeVeque, "Updating formulae and a pairwise algorithm for computing sample
variances", Stanford 1979.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, TypeGuard

from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json
from lockstep.simulate.play.sample import student_t


@dataclass(frozen=True, slots=True)
class Moments:
    """Of some numbers: how many, their mean, the sum of squared deviations from it, the least and the greatest."""

    count: int
    mean: float
    spread: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Moments:
        """Those of one or more numbers."""
        mean = math.fsum(values) / len(values)
        spread = math.fsum((value - mean) ** 2 for value in values)
        return cls(len(values), mean, spread, min(values), max(values))

    def __add__(self, other: Moments) -> Moments:
        count, apart = self.count + other.count, other.mean - self.mean
        mean = (self.count * self.mean + other.count * other.mean) / count
        spread = self.spread + other.spread + apart**2 * self.count * other.count / count
        return Moments(count, mean, spread, min(self.low, other.low), max(self.high, other.high))

    @property
    def ci95(self) -> tuple[float, float]:
        """The 95 % interval of the mean (Student t); a single value is its own interval."""
        n = self.count
        half = student_t(0.975, n - 1) * math.sqrt(self.spread / (n - 1) / n) if n > 1 else 0.0
        return self.mean - half, self.mean + half


@dataclass(frozen=True, slots=True)
class Cell:
    """What is kept of a cell over seeds. Where they all have the same, that is `first`."""

    seeds: int
    first: Any
    same: bool
    numeric: bool
    """Whether all are numbers, or none at all."""
    moments: Moments | None = None
    """Of the finite numbers."""
    parts: tuple[Cell, ...] = ()
    """Of lists of one length, that of each place."""
    counts: tuple[tuple[str, int], ...] = ()
    """How often each text came, where some are no numbers and no such lists."""

    @classmethod
    def of(cls, values: Sequence[Any]) -> Cell:
        """That of one value per seed."""
        first, seeds = values[0], len(values)
        same = all(value == first for value in values)
        if all(value is None or isinstance(value, float) or is_number(value) for value in values):
            known = [value for value in values if is_number(value)]
            return cls(seeds, first, same, True, Moments.of(known) if known else None)
        if all(isinstance(value, list) and value and len(value) == len(first) for value in values):
            parts = tuple(cls.of(several) for several in zip(*values, strict=True))
            return cls(seeds, first, same, False, parts=parts)
        return cls(seeds, first, same, False, counts=tuple(Counter(map(str, values)).items()))

    @classmethod
    def absent(cls, seeds: int) -> Cell:
        """That of rows without this cell."""
        return cls(seeds, None, True, True)

    def __add__(self, other: Cell) -> Cell:
        seeds, same = self.seeds + other.seeds, self.same and other.same and self.first == other.first
        if self.numeric and other.numeric:
            known = [one for one in (self.moments, other.moments) if one is not None]
            return Cell(seeds, self.first, same, True, sum(known[1:], known[0]) if known else None)
        if self.parts and len(self.parts) == len(other.parts):
            parts = tuple(one + another for one, another in zip(self.parts, other.parts, strict=True))
            return Cell(seeds, self.first, same, False, parts=parts)
        counts = Counter(dict(self._counted()))
        counts.update(dict(other._counted()))
        return Cell(seeds, self.first, same, False, counts=tuple(counts.items()))

    def _counted(self) -> tuple[tuple[str, int], ...]:
        """Texts with counts; of numbers and lists that differ only how many there are."""
        if self.counts:
            return self.counts
        return ((str(self.first) if self.same else "numbers" if self.numeric else "lists", self.seeds),)

    def shown(self, key: str) -> Json:
        """Itself where all seeds have it, else the mean with its interval, or words with counts.

        Under `ci95_` and the key stands the interval, under `seeds_` how many have a number, where some have none.
        """
        if self.same:
            return {key: self.first}
        if self.numeric:
            return self._number(key)
        if self.parts:
            cells = [part.shown(key) for part in self.parts]
            ends = [cell.get(f"ci95_{key}", [cell[key], cell[key]]) for cell in cells]
            return {key: [cell[key] for cell in cells], f"ci95_{key}": ends}
        return {key: ", ".join(f"{word} ({count} of {self.seeds})" for word, count in self.counts)}

    def _number(self, key: str) -> Json:
        known = self.moments
        if known is None:
            return {key: None}
        differ = known.low != known.high
        found: Json = {key: known.mean if differ else known.low}
        if differ:
            found[f"ci95_{key}"] = list(known.ci95)
        return found if known.count == self.seeds else found | {f"seeds_{key}": known.count}


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a cell has a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
