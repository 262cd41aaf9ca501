"""Ways in which a single number comes out wrong, whatever the exercise: factors, units, prefixes, one too many.

Each applies to quantities of some kinds, where these are given or where they are the answer. `cost` says how
unlikely a change is before one has seen a table, in natural logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from lockstep.base.records import dataclass
from lockstep.check.evidence.grading.sheet import Answer, Change, Column, Values

BANDWIDTH_END = 1e30
"""Bytes per second beyond which sending takes no time."""
MEASURED = ("time", "size", "bandwidth", "flops")
RATES = ("bandwidth", "flops")
NUMBERS = (*MEASURED, "number", "count", "share")
KIBI = 1.024


@dataclass(frozen=True, slots=True)
class Way:
    """A change with its words, in which {it} is the quantity."""

    words: str
    change: Change
    cost: float


Row = tuple[float, tuple[str, ...], float, str]
FACTORS: tuple[Row, ...] = (
    (2.0, NUMBERS, 1.0, "{it} twice: both directions for one, 4 bytes for 2, or a factor of 2 too many"),
    (0.5, NUMBERS, 0.5, "half of {it}: one direction of two, 2 bytes for 4, or a factor of 2 forgotten"),
    (3.0, NUMBERS, 3.0, "{it} three times: a factor of 3 too many"),
    (1 / 3, NUMBERS, 2.0, "a third of {it}: a factor of 3 forgotten, such as the backward pass, 2 FLOPs for 6"),
    (1.5, NUMBERS, 4.0, "{it} by a factor of 3 / 2 too large"),
    (2 / 3, NUMBERS, 3.0, "two thirds of {it}: the backward pass for forward and backward"),
    (4.0, NUMBERS, 2.5, "{it} four times: bytes for elements of 4 bytes, or a factor of 4 too many"),
    (0.25, NUMBERS, 2.0, "a quarter of {it}: elements for bytes of 4, or a factor of 4 forgotten"),
    (4 / 3, NUMBERS, 3.0, "{it} by a factor of 4 / 3 too large: all activations computed again, or 8 FLOPs for 6"),
    (0.75, NUMBERS, 4.0, "three quarters of {it}"),
    (6.0, NUMBERS, 2.5, "{it} six times: a factor of 6 too many"),
    (1 / 6, NUMBERS, 1.5, "a sixth of {it}: a factor of 6 forgotten, the FLOPs for each parameter and token"),
    (8.0, MEASURED, 0.5, "bits and bytes confused in {it}, a factor of 8 too large"),
    (0.125, MEASURED, 0.5, "bits and bytes confused in {it}, a factor of 8 too small"),
    (8.0, ("number", "count", "share"), 3.5, "{it} by a factor of 8 too large: bits and bytes confused"),
    (0.125, ("number", "count", "share"), 3.5, "{it} by a factor of 8 too small: bits and bytes confused"),
    (10.0, NUMBERS, 1.5, "the decimal point of {it} one place too far right: ten times"),
    (0.1, NUMBERS, 1.5, "the decimal point of {it} one place too far left: a tenth"),
    (100.0, ("share", "number"), 0.5, "percent for a fraction in {it}"),
    (0.01, ("share", "number"), 0.5, "a fraction for percent in {it}"),
    (60.0, ("time",), 0.5, "minutes, hours and seconds confused in {it}: a factor of 60"),
    (1 / 60, ("time",), 0.5, "minutes, hours and seconds confused in {it}: a factor of 60"),
    (3600.0, ("time",), 0.5, "hours and seconds confused in {it}"),
    (3600.0, ("number",), 2.1, "hours and seconds confused in {it}"),
    (1 / 3600, ("time",), 0.5, "hours and seconds confused in {it}"),
    (1 / 3600, ("number",), 2.1, "hours and seconds confused in {it}"),
    (24.0, ("time",), 0.5, "days and hours confused in {it}"),
    (24.0, ("number",), 2.1, "days and hours confused in {it}"),
    (1 / 24, ("time",), 0.5, "days and hours confused in {it}"),
    (1 / 24, ("number",), 2.1, "days and hours confused in {it}"),
    (86400.0, ("time",), 1.0, "days and seconds confused in {it}"),
    (86400.0, ("number",), 2.1, "days and seconds confused in {it}"),
    (1 / 86400, ("time",), 1.0, "days and seconds confused in {it}"),
    (1 / 86400, ("number",), 2.1, "days and seconds confused in {it}"),
    (-1.0, NUMBERS, 0.5, "the sign of {it} is wrong"),
    (math.log(2), NUMBERS, 3.0, "{it} by a factor of ln 2 too small: a natural logarithm for one of base 2"),
    (1 / math.log(2), NUMBERS, 3.0, "{it} by a factor of 1 / ln 2 too large: base 2 for a natural logarithm"),
    (math.log10(2), NUMBERS, 3.0, "{it} by a factor of log10(2) too small: base 10 for a logarithm of base 2"),
    (1 / math.log(10), NUMBERS, 3.0, "{it} by a factor of ln 10 too small: a logarithm of base 10 for a natural one"),
    (math.log(10), NUMBERS, 3.0, "{it} by a factor of ln 10 too large: a natural logarithm for one of base 10"),
    (math.sqrt(2), NUMBERS, 2.5, "{it} by a factor of the root of 2 too large"),
    (math.sqrt(0.5), NUMBERS, 2.0, "{it} by a factor of the root of 2 too small: a 2 forgotten under the root"),
    (math.pi, NUMBERS, 5.0, "{it} by a factor of pi too large"),
    (1 / math.pi, NUMBERS, 5.0, "{it} by a factor of pi too small"),
    *((side, MEASURED, 1.0 + power / 10, "GB for GiB in {it}, or MB for MiB, or the reverse: binary and decimal "
       f"prefixes confused, a factor of {KIBI**power:.4g}")
      for power in (1, 2, 3, 4) for side in (KIBI**power, KIBI**-power)),
    *((10.0 ** (3 * side * power), ("time",), 0.3 + power / 10,
       f"units of time confused in {{it}}, such as {names}: a factor of 10^{3 * power}")
      for power, names in ((1, "ms for s or us for ms"), (2, "us for s"), (3, "ns for s")) for side in (1, -1)),
    *((10.0 ** (3 * side * power), ("size", "bandwidth", "flops", "number", "count", "share"), 1.5,
       f"prefixes confused in {{it}}, such as MB for GB: a factor of 10^{3 * power}")
      for power in (1, 2, 3, 4) for side in (1, -1)),
)  # fmt: skip
"""Factor, kinds, cost, words."""
Shape = Callable[[float], float]
OF_A_COUNT: tuple[tuple[Shape, float, str], ...] = (
    (lambda n: n, 1.0, "{it} times {n}: the total of all for a single one"),
    (lambda n: 1 / n, 1.0, "{it} over {n}: that of one for all, per rank for the total"),
    (lambda n: n / (n - 1), 0.5, "{n} for {n} - 1 in {it}, n for n - 1"),
    (lambda n: (n - 1) / n, 0.5, "{n} - 1 for {n} in {it}, n - 1 for n"),
    (lambda n: n - 1, 1.5, "{it} times {n} - 1"),
    (lambda n: 1 / (n - 1), 1.0, "a factor of {n} - 1 forgotten in {it}: one round for all"),
    (lambda n: (n + 1) / n, 2.0, "{n} + 1 for {n} in {it}"),
    (lambda n: n / (n + 1), 2.0, "{n} for {n} + 1 in {it}"),
    (lambda n: 0.5 / (n - 1), 1.5, "a factor of 2 ({n} - 1) forgotten in {it}: one round for all"),
    (lambda n: math.log2(n), 2.0, "{it} times log2 {n}"),
    (lambda n: 1 / math.log2(n), 1.5, "a factor of log2 {n} forgotten in {it}: one round for all"),
    (lambda n: math.floor(math.log2(n)) / math.ceil(math.log2(n)), 0.5, "log2 {n} rounded down in {it}, not up"),
    (lambda n: math.log2(n) / math.ceil(math.log2(n)), 0.7, "log2 {n} not rounded up in {it}"),
    (lambda n: math.log2(n) / (n - 1), 1.5, "log2 {n} rounds for {n} - 1 in {it}"),
    (lambda n: (n - 1) / math.log2(n), 1.5, "{n} - 1 rounds for log2 {n} in {it}"),
    (lambda n: math.sqrt(n), 2.5, "{it} by a factor of the root of {n} too large"),
    (lambda n: 1 / math.sqrt(n), 2.5, "{it} by a factor of the root of {n} too small"),
)
"""What a factor is of a count n, cost, words."""
OF_GIVEN_COUNTS = (0.125, 0.25, 0.5, 2.0, 4.0, 8.0, 1e-3, 1e3)
"""Factors by which a count that is given is mistaken: nodes for ranks, directions, prefixes."""
GIVEN, LIKELY = 0.6, 2.0
"""What a change of a given number costs more, and up to which cost it is looked for."""
OF_GIVENS = {"time": 1.0, "size": 0.5, "bandwidth": 0.5}
"""Cost up to which a factor that depends on a count is looked for in what is given."""
TAKES_COUNTS = ("time", "size", "bandwidth", "number", "share")


def scaled(factor: float) -> Change:
    """A change by a factor."""
    return lambda value, others: value * factor


def _by_count(name: str, shape: Shape) -> Change:
    return lambda value, others: value * shape(others[name])


def _to(constant: float) -> Change:
    return lambda value, others: constant


def ways(column: Column, counts: tuple[Column, ...]) -> Iterator[Way]:
    """All the ways for a quantity; `counts` are what the sheet counts."""
    answer = isinstance(column, Answer)
    extra, most = (0.0, math.inf) if answer else (GIVEN, LIKELY)
    for factor, kinds, cost, words in FACTORS:
        if column.kind in kinds and cost <= most and (answer or column.kind != "count" or factor in OF_GIVEN_COUNTS):
            yield Way(words, scaled(factor), cost + extra)
    if column.kind in TAKES_COUNTS:
        most = math.inf if answer else OF_GIVENS.get(column.kind, 0.0)
        for one in counts:
            for shape, cost, words in OF_A_COUNT:
                if cost <= most:
                    yield Way(words.replace("{n}", one.spoken), _by_count(one.name, shape), cost + extra)
    yield from _of_answers(column) if isinstance(column, Answer) else _of_givens(column)


def _of_answers(column: Answer) -> Iterator[Way]:
    if column.kind in ("share", "number"):
        yield Way("{it} upside down: 1 over it", lambda value, others: 1 / value, 1.0)
    if column.kind == "share":
        yield Way("1 less {it} for {it}", lambda value, others: 1 - value, 0.5)
        yield Way("1 less {it} for {it}, in percent", lambda value, others: 100 * (1 - value), 2.0)
    if column.kind in ("count", "number"):
        yield Way("{it} one too many", lambda value, others: value + 1, 1.0)
        yield Way("{it} one too few", lambda value, others: value - 1, 1.0)


def _of_givens(column: Column) -> Iterator[Way]:
    if column.kind == "time":
        yield Way("{it} forgotten", _to(0.0), 0.0)
    if column.kind in ("size", "bandwidth"):
        end = 0.0 if column.kind == "size" else BANDWIDTH_END
        yield Way("the term of {it} forgotten: only what does not depend on it is left", _to(end), 0.3)
    if column.kind == "share":
        yield Way("{it} forgotten: 1 for it, such as the peak for the sustained rate", _to(1.0), 0.0)
        yield Way("1 less {it} for {it}", lambda value, others: 1 - value, 1.5)
        yield Way("{it} forgotten: 0 for it", _to(0.0), 0.3)
    if column.kind == "count":
        yield Way("{it} - 1 for {it}, n - 1 for n", lambda value, others: value - 1, 0.5)
        yield Way("{it} for {it} - 1, n for n - 1: one too many", lambda value, others: value + 1, 0.7)
        yield Way("{it} taken for the next smaller power of 2", _power_of_two, 0.8)
        yield Way("{it} forgotten: 1 for it", _to(1.0), 1.0)
    if column.kind == "number":
        yield Way("{it} squared", lambda value, others: value * value, 2.0)
        yield Way("the root of {it} for {it}", lambda value, others: math.sqrt(value), 2.0)
        yield Way("{it} forgotten: 1 for it", _to(1.0), 1.0)


def _power_of_two(value: float, others: Values) -> float:
    return 2.0 ** math.floor(math.log2(value))
