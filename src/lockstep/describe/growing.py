"""What grows with a whole number v, from a few instances: nested tuples of numbers and words at another v.

number   the polynomial of least degree through all instances but one, which checks it, or c v^2;
         of lists that lengthen, where v is a count, a line through two
tuple    part by part
Many     of one length part by part; else x(v + step) is x(v) with one more Y beside a Y that is there
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from fractions import Fraction
from heapq import heappop, heappush
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple

from lockstep.base.records import dataclass, field

MOST_TRIES = 100_000
"""Ways in which two lists are laid beside each other before it is given up."""


class Many(tuple[Any, ...]):
    """Parts of which there may be more or fewer."""

    __slots__ = ()


class Uneven(Exception):
    """What does not grow by a rule that the instances show."""


class Inserted(NamedTuple):
    """What a longer list has more, before a place of the shorter one: `times` copies of `length` parts."""

    place: int
    length: int
    times: int


@dataclass(frozen=True)
class Growth:
    """From instances at `values`, in increasing order, to `target`."""

    values: tuple[int, ...]
    target: int
    counts: bool
    """Whether lists lengthen, so that the value counts what they repeat."""
    known: dict[tuple[Any, ...], Any] = field(default_factory=dict)
    """What has been found: layers are alike."""

    def at_target(self, found: Sequence[Any]) -> Any:
        """The instance at the target. Raises Uneven."""
        if all(one == found[0] for one in found):
            return found[0]
        key = tuple(found)
        if key not in self.known:
            self.known[key] = self._at_target(found)
        return self.known[key]

    def _at_target(self, found: Sequence[Any]) -> Any:
        first = found[0]
        if isinstance(first, int):
            return self._number(found)
        if isinstance(first, Many) and len({len(one) for one in found}) > 1:
            return self._lengthened(found)
        if not isinstance(first, tuple) or any(len(one) != len(first) for one in found):
            raise Uneven(" and ".join(map(repr, dict.fromkeys(found))))
        return type(first)([self.at_target(parts) for parts in zip(*found, strict=True)])

    def _number(self, found: Sequence[int]) -> int:
        for degree in range(1, (len(found) - 2 or int(self.counts)) + 1):
            polynomials = [self._polynomial(found[: degree + 1], value) for value in self.values]
            if polynomials == list(found):
                return self._whole(self._polynomial(found[: degree + 1], self.target))
        square = Fraction(found[0], self.values[0] ** 2)
        if len(found) > 2 and [square * value**2 for value in self.values] == list(found):
            return self._whole(square * self.target**2)
        more = ": two values cannot show how it grows, give three" if len(found) == 2 else ": not a polynomial"
        raise Uneven(f"a size is {', '.join(f'{one:,}' for one in found)}{more}")

    def _polynomial(self, found: Sequence[int], value: int) -> Fraction:
        """Through the first instances (Lagrange)."""
        at = self.values[: len(found)]
        return sum(
            (
                one * prod((Fraction(value - x, mine - x) for x in at if x != mine), start=Fraction(1))
                for one, mine in zip(found, at, strict=True)
            ),
            start=Fraction(0),
        )

    def _whole(self, number: Fraction) -> int:
        if number.denominator > 1 or number < 0:
            raise Uneven(f"{float(number):,.2f} at {self.target}")
        return number.numerator

    def _lengthened(self, found: Sequence[Many]) -> Many:
        """Common parts at the target, and between them what repeats as often as it does there."""
        places = [list(range(len(found[0]) + 1))]
        repeated: dict[int, tuple[int, Many]] = {}
        for number, (short, long) in enumerate(pairwise(found)):
            length = self.values[number + 1] - self.values[number]
            more = beside(short, long, length)
            seen = {bisect_left(places[-1], one.place): self._part(one, more, long, length) for one in more}
            if number and (seen != repeated or any(one.place not in places[-1] for one in more)):
                raise Uneven("what is added differs from value to value")
            repeated = seen
            places.append([at + sum(one.length * one.times for one in more if one.place <= at) for at in places[-1]])
        return Many(self._joined(found, places, repeated))

    @staticmethod
    def _part(one: Inserted, more: Sequence[Inserted], long: Many, length: int) -> tuple[int, Many]:
        """By how much the value grows for a copy more, and the copy."""
        start = one.place + sum(other.length * other.times for other in more if other.place < one.place)
        return length // one.times, Many(long[start : start + one.length])

    def _joined(
        self, found: Sequence[Many], places: Sequence[Sequence[int]], repeated: dict[int, tuple[int, Many]]
    ) -> Iterator[Any]:
        for at in range(len(found[0]) + 1):
            if at in repeated:
                step, part = repeated[at]
                copies, left = divmod(self.target - self.values[0], step)
                if left or copies < 0:
                    raise Uneven(f"only {self.values[0]} and every {step} above it are known, not {self.target}")
                yield from part * copies
            if at < len(found[0]):
                yield self.at_target([one[place[at]] for one, place in zip(found, places, strict=True)])


def beside(short: Many, long: Many, most: int) -> tuple[Inserted, ...]:
    """What `long` has more than `short`, each part once or `most` times after a copy of itself. Raises Uneven.

    Of all ways to lay them beside each other, that with the fewest insertions and pairs of one kind that are not equal.
    """
    known: dict[Any, int] = {}
    a, b = ([known.setdefault(part, len(known)) for part in parts] for parts in (short, long))
    kinds_a, kinds_b = ([_kind(part) for part in parts] for parts in (short, long))
    left: list[tuple[int, int, int, int, tuple[Inserted, ...]]] = [(0, 0, 0, 0, ())]
    for _ in range(MOST_TRIES):
        if not left:
            break
        cost, _, i, j, more = heappop(left)
        while i < len(a) and j < len(b) and a[i] == b[j]:
            i, j = i + 1, j + 1
        if i == len(a) and j == len(b):
            return more
        if i < len(a) and j < len(b) and kinds_a[i] == kinds_b[j]:
            heappush(left, (cost + 1, -i, i + 1, j + 1, more))
        if not more or more[-1].place < i:
            for one in _insertions(b, i, j, len(b) - j - (len(a) - i), most):
                heappush(left, (cost + 1, -i, i, j + one.length * one.times, (*more, one)))
    raise Uneven(
        f"the larger has {len(long) - len(short):,} parts more than {len(short):,}, which repeat none of them evenly; "
        "try larger values"
    )


def _insertions(b: Sequence[int], i: int, j: int, room: int, most: int) -> Iterator[Inserted]:
    """Copies in `b` from `j` on of what stands before them."""
    for times in sorted({1, most}):
        for length in range(1, min(room // times, j) + 1):
            size = length * times
            if b[j] == b[j - length] and b[j : j + size] == b[j - length : j - length + size]:
                yield Inserted(i, length, times)


def _kind(part: Any) -> Any:
    """What stays of a part when its numbers are left out."""
    if isinstance(part, Many):
        return Many
    if isinstance(part, tuple):
        return tuple(map(_kind, part))
    return int if isinstance(part, int) else part
