"""Which mistake explains a wrong table best: the one whose values the table repeats to the digits that it writes.

    cost of a cell      log(1 + (d / s)^2), at most MOST; d: distance, s: half of the last digit, at least a share LEAST
    cost of a mistake   its own, and for every column that of its values or, where they fit better, of the right ones
A wrong value of a single cell is a mistake too, at a price, so that one slip of the pen is not taken for a law. What
one mistake leaves unexplained is looked at again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from lockstep.base.records import dataclass, field
from lockstep.base.types.arrays import Array
from lockstep.check.evidence.grading.mistakes import DECISIVE, Mistake, mistakes
from lockstep.check.evidence.grading.sheet import Answer, Drawn, Table

MOST, LEAST = 12.0, 5e-4
CALCULATED = 5e-5
"""Relative error of a value that is calculated with care."""
UNKNOWN = 6.0
"""Cost of a cell for which a mistake says nothing."""
COLUMN = 0.5
"""What it costs to say that another column has the mistake."""
MISSED = 1.0
"""What it costs that a column does not have a mistake that it depends on."""
TYPED, CONSTANT = 5.0, 7.0
"""Costs of a value typed wrongly, and of a factor without a known reason."""
NEAR = 1.5
"""Costs that are not told apart."""
EXACT_DIGITS = 3
MOST_NAMED = 3
ENOUGH = 0.5
"""Share of the wrong cells of its columns that a mistake must explain to be named."""
TYPING = (
    (10.0, "the decimal point one place too far right"), (0.1, "the decimal point one place too far left"),
    (100.0, "the decimal point two places off"), (0.01, "the decimal point two places off"),
    (1e3, "another prefix of the unit"), (1e-3, "another prefix of the unit"), (-1.0, "the sign"),
)  # fmt: skip
"""Factors of a single value, and how they come about."""


@dataclass(frozen=True)
class Written:
    """A student's values by answer [rows], not a number where there is none, and half of the last digit of each."""

    values: Table
    halves: Table


@dataclass(frozen=True)
class Explained:
    """A mistake that explains cells of a table."""

    words: str
    rows: int
    """Wrong cells that it explains."""
    of: int
    """Wrong cells that there are in its columns."""
    columns: tuple[str, ...]
    also: tuple[str, ...] = ()
    """Other mistakes that explain as much."""
    cells: frozenset[tuple[str, int]] = field(default=frozenset(), repr=False)


def costs(values: Array, wanted: Array, halves: Array) -> Array:
    """Cost of each cell."""
    with np.errstate(all="ignore"):
        size = np.maximum(np.abs(values), np.abs(wanted))
        allowed = np.maximum(halves, LEAST * size)
        found = np.log1p((np.abs(values - wanted) / np.where(allowed > 0, allowed, 1e-300)) ** 2)
    found = np.where(values == wanted, 0.0, found)
    return np.where(np.isnan(values), 0.0, np.where(np.isnan(wanted), UNKNOWN, np.minimum(found, MOST)))


def explain(drawn: Drawn, written: Written, off: Mapping[str, Array], tolerance_frac: float) -> tuple[Explained, ...]:
    """The likeliest mistakes, the one that explains most first; `off`: by answer which cells are wrong."""
    left = {name: cells.copy() for name, cells in off.items()}
    every = [*mistakes(drawn)] if any(cells.any() for cells in left.values()) else []
    found: list[Explained] = []
    while len(found) < MOST_NAMED and any(cells.any() for cells in left.values()):
        best = _best(
            drawn,
            written,
            left,
            [*every, *_typed(drawn, written, left), *_constant(drawn, written, left)],
            tolerance_frac,
        )
        if best is None:
            break
        found.append(best)
        for name, row in best.cells:
            left[name][row] = False
    return tuple(found)


def _best(
    drawn: Drawn, written: Written, left: Mapping[str, Array], every: Iterable[Mistake], tolerance_frac: float
) -> Explained | None:
    """The mistake of the least cost for the cells that are not explained yet; the right ones count as well."""
    right = {name: costs(written.values[name], drawn.truth[name], written.halves[name]) for name in left}
    ranked = []
    for place, one in enumerate(every):
        total = one.cost
        chosen: list[str] = []
        for name in left:
            cells = left[name] | (right[name] < MOST / 2)
            plain = float(right[name][cells].sum())
            other = float(costs(written.values[name], one.answers[name], written.halves[name])[cells].sum()) + COLUMN
            total += min(plain, other)
            chosen += [name] if other < plain else []
            if one.spreads and other >= plain and not np.allclose(one.answers[name], drawn.truth[name], equal_nan=True):
                total += MISSED
        if one.of and one.of not in chosen:
            total += 2 * MISSED
        if chosen:
            ranked.append((total, place, one, tuple(chosen)))
    ranked.sort(key=lambda each: each[:2])
    for total, _, one, columns in ranked:
        explained = _explained(one, written, left, columns, tolerance_frac)
        wrong = sum(int(left[name].sum()) for name in {name for name, _ in explained})
        if explained and len(explained) >= ENOUGH * wrong:
            also = _also(ranked, total, one, explained, written, left, tolerance_frac)
            return _told(one, columns, explained, left, also)
    return None


def _explained(
    one: Mistake, written: Written, left: Mapping[str, Array], chosen: Iterable[str], tolerance_frac: float
) -> frozenset[tuple[str, int]]:
    """Wrong cells that agree with a mistake."""
    found = set()
    for name in chosen:
        near = agrees(written.values[name], one.answers[name], written.halves[name], tolerance_frac)
        found |= {(name, int(row)) for row in np.flatnonzero(near & left[name])}
    return frozenset(found)


def agrees(values: Array, wanted: Array, halves: Array, tolerance_frac: float) -> Array:
    """Which values lie within the tolerance of what is wanted."""
    return np.asarray(np.abs(values - wanted) <= np.maximum(tolerance_frac * np.abs(wanted), 1.001 * halves))


def _also(
    ranked: list[tuple[float, int, Mistake, tuple[str, ...]]], least: float, best: Mistake,
    cells: frozenset[tuple[str, int]], written: Written, left: Mapping[str, Array], tolerance_frac: float,
) -> tuple[str, ...]:  # fmt: skip
    """Others that explain the same cells as well."""
    others = dict.fromkeys(
        one.words
        for total, _, one, chosen in ranked
        if total - one.cost <= least - best.cost + NEAR
        and total <= least + DECISIVE
        and one.words != best.words
        and _explained(one, written, left, chosen, tolerance_frac) >= cells
    )
    return tuple(others)[:MOST_NAMED]


def _told(
    one: Mistake, chosen: tuple[str, ...], cells: frozenset[tuple[str, int]], left: Mapping[str, Array],
    also: tuple[str, ...],
) -> Explained:  # fmt: skip
    columns = tuple(name for name in chosen if any(cell[0] == name for cell in cells))
    return Explained(one.words, len(cells), int(sum(left[name].sum() for name in columns)), columns, also, cells)


def _typed(drawn: Drawn, written: Written, left: Mapping[str, Array]) -> Iterator[Mistake]:
    """Single values that were typed wrongly, and single rows all of whose values belong elsewhere."""
    for column in drawn.sheet.asked:
        truth, values = drawn.truth[column.name], written.values[column.name]
        for row in np.flatnonzero(left[column.name]).tolist():
            wrong = truth.copy()
            wrong[row] = values[row]
            why = typing(column, values[row], truth, row)
            words = f"one value of {column.spoken} typed wrongly: {why}"
            yield Mistake(words, TYPED, {**drawn.truth, column.name: wrong})
    for row in range(len(drawn.rows)):
        if sum(bool(cells[row]) for cells in left.values()) > 1:
            yield from _misplaced(drawn, written, row)


def _misplaced(drawn: Drawn, written: Written, row: int) -> Iterator[Mistake]:
    for other in range(len(drawn.rows)):
        if other != row:
            moved = {name: values.copy() for name, values in drawn.truth.items()}
            for name in moved:
                moved[name][row] = drawn.truth[name][other]
            yield Mistake(f"row {row + 1} has the values of row {other + 1}", TYPED, moved)
    wrong = {name: values.copy() for name, values in drawn.truth.items()}
    for name in wrong:
        wrong[name][row] = written.values[name][row]
    yield Mistake(f"row {row + 1} alone is wrong", TYPED + 2 * len(wrong), wrong)


def typing(column: Answer, value: float, truth: Array, row: int) -> str:
    """How a single wrong value came about."""
    right = truth[row]
    for other in np.flatnonzero(np.isclose(truth, value, rtol=5e-3)):
        if other != row:
            return f"row {row + 1} has the value of row {other + 1}"
    for factor, words in TYPING:
        if np.isclose(value, right * factor, rtol=1e-2):
            return f"{words} in row {row + 1}"
    if sorted(_digits(column, value)) == sorted(_digits(column, right)):
        return f"digits exchanged in row {row + 1}"
    return f"row {row + 1} has {column.shown(value)} for {column.shown(right)}"


def _digits(column: Answer, value: float) -> str:
    return f"{abs(value / column.factor):.2e}"[:4]


def _constant(drawn: Drawn, written: Written, left: Mapping[str, Array]) -> Iterator[Mistake]:
    """A factor or a difference that all wrong values of a column share, without a known reason."""
    for column in drawn.sheet.asked:
        truth, values, off = drawn.truth[column.name], written.values[column.name], left[column.name]
        with np.errstate(all="ignore"):
            factors, more = (values / truth)[off], (values - truth)[off]
        if off.sum() < 2 or not np.isfinite(factors).all():
            continue
        factor, difference = float(np.median(factors)), float(np.median(more))
        words = f"every value of {column.spoken} is {factor:.4g} times the right one"
        yield Mistake(words, CONSTANT, {**drawn.truth, column.name: truth * factor})
        words = f"every value of {column.spoken} is {column.shown(abs(difference))} too "
        words += "large" if difference > 0 else "small"
        yield Mistake(words, CONSTANT, {**drawn.truth, column.name: truth + difference})


def hidden_mistake(drawn: Drawn, written: Written) -> Explained | None:
    """A mistake that a tolerance hides: values that repeat it to their last digit, and not the right ones.

    Of known mistakes alone, where at least EXACT_DIGITS cells of a column tell the two apart.
    """
    tells = {}
    for name, truth in drawn.truth.items():
        half, values = written.halves[name], written.values[name]
        tells[name] = np.abs(values - truth) > 3 * np.maximum(half, CALCULATED * np.abs(truth))
    if max(cells.sum() for cells in tells.values()) < EXACT_DIGITS:
        return None
    for one in sorted(mistakes(drawn), key=lambda each: each.cost):
        if one.cost > DECISIVE or one.moves:
            continue
        for name, cells in tells.items():
            near = np.abs(written.values[name] - one.answers[name]) <= np.maximum(
                1.02 * written.halves[name], CALCULATED * np.abs(one.answers[name])
            )
            if cells.sum() >= EXACT_DIGITS and near.all():
                return Explained(one.words, int(cells.sum()), int(cells.sum()), (name,))
    return None
