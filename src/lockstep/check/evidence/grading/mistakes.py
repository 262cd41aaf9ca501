"""`mistakes`: everything that may have gone wrong in a table, each with the table that it would give.

A single change of a number, by `changes.ways`, is made where the number is given or where it is the answer, and all
that follows from it follows. Beside these: two numbers exchanged, numbers of the statement for a student's own, the
exercise's own slips, and what goes wrong in a spreadsheet: columns and rows exchanged, moved, or copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Array
from lockstep.check.evidence.grading.changes import ways
from lockstep.check.evidence.grading.sheet import Answer, Column, Drawn, Table, counts

DECISIVE = 3.0
"""Cost up to which a mistake is told from a right value within the tolerance, where the digits say so."""


@dataclass(frozen=True)
class Mistake:
    """What went wrong, in words, how unlikely that is (`Way.cost`), and the answers that it gives."""

    words: str
    cost: float
    answers: Table
    moves: bool = False
    """Whether right values stand in wrong places."""
    spreads: bool = False
    """Whether it lies in what is given, so that all columns that depend on that should have it."""
    of: str = ""
    """The answer that is changed, whose own column should have it."""


def mistakes(drawn: Drawn) -> Iterator[Mistake]:
    """All of them."""
    yield from _slips(drawn)
    yield from _changes(drawn)
    yield from _exchanged_givens(drawn)
    yield from _of_the_statement(drawn)
    yield from _moved_rows(drawn)
    yield from _exchanged_columns(drawn)


def _slips(drawn: Drawn) -> Iterator[Mistake]:
    for slip in drawn.sheet.slips:
        yield Mistake(slip.words, 0.0, drawn.answers(laws=slip.laws))


def _changes(drawn: Drawn) -> Iterator[Mistake]:
    sheet = drawn.sheet
    counted = tuple(counts(sheet))
    columns: tuple[Column, ...] = (*sheet.givens, *sheet.inputs, *sheet.answers)
    for column in columns:
        if isinstance(column, Answer) and column.hidden:
            continue
        for way in ways(column, tuple(one for one in counted if one.name != column.name)):
            answers = drawn.answers({column.name: way.change})
            spreads = not isinstance(column, Answer)
            yield Mistake(
                way.words.replace("{it}", column.spoken),
                way.cost,
                answers,
                spreads=spreads,
                of="" if spreads else column.name,
            )


def _exchanged_givens(drawn: Drawn) -> Iterator[Mistake]:
    """One number taken for another of its kind."""
    sheet = drawn.sheet
    for one, other in combinations((*sheet.givens, *sheet.inputs), 2):
        if one.kind == other.kind:
            changed = {one.name: _value_of(other.name), other.name: _value_of(one.name)}
            yield Mistake(f"{one.spoken} and {other.spoken} exchanged", 1.0, drawn.answers(changed), spreads=True)
            for first, second in ((one, other), (other, one)):
                only = {first.name: _value_of(second.name)}
                yield Mistake(f"{second.spoken} taken for {first.spoken}", 2.0, drawn.answers(only), spreads=True)


def _value_of(name: str) -> Callable[..., float]:
    return lambda value, others: others[name]


def _of_the_statement(drawn: Drawn) -> Iterator[Mistake]:
    """Numbers of the statement where a student has others."""
    if drawn.seed is None:
        return
    usual = drawn.sheet.for_student(None).givens
    other = {name: value for name, value in usual.items() if value != drawn.givens[name]}
    for one in drawn.sheet.givens:
        if one.name in other:
            words = f"the statement's {one.spoken}, {one.shown(other[one.name])}, for yours, "
            words += one.shown(drawn.givens[one.name])
            changed = {one.name: lambda value, others, n=one.name: other[n]}
            yield Mistake(words, 0.2, drawn.answers(changed), spreads=True)
    if other:
        changed = {name: (lambda value, others, n=name: other[n]) for name in other}
        yield Mistake("the numbers of the statement for yours", 0.2, drawn.answers(changed), spreads=True)


def _moved_rows(drawn: Drawn) -> Iterator[Mistake]:
    moves: tuple[tuple[str, float, Callable[[Array], Array]], ...] = (
        ("values one row too low: each stands a row below its own", 0.5, lambda x: np.r_[np.nan, x[:-1]]),
        ("values one row too high: each stands a row above its own", 0.5, lambda x: np.r_[x[1:], np.nan]),
        ("rows in the reverse order", 1.0, lambda x: x[::-1]),
        ("the value of the first row in every row", 1.5, lambda x: np.full_like(x, x[0])),
        ("the value of the last row in every row", 2.0, lambda x: np.full_like(x, x[-1])),
        ("running sums for single values", 2.0, np.cumsum),
    )
    for words, cost, move in moves:
        yield Mistake(words, cost, {name: move(values) for name, values in drawn.truth.items()}, moves=True)


def _exchanged_columns(drawn: Drawn) -> Iterator[Mistake]:
    """Columns whose numbers, as written in their units, stand in one another's place."""
    for one, other in combinations(drawn.sheet.asked, 2):
        scale = one.factor / other.factor
        truth = dict(drawn.truth)
        truth[one.name], truth[other.name] = truth[other.name] * scale, truth[one.name] / scale
        yield Mistake(f"the columns {one.spoken} and {other.spoken} exchanged", 0.3, truth, moves=True, spreads=True)
        for first, second, factor in ((one, other, scale), (other, one, 1 / scale)):
            copied = {**drawn.truth, first.name: drawn.truth[second.name] * factor}
            yield Mistake(f"the values of {second.spoken} in the column {first.spoken}", 1.0, copied, moves=True)
