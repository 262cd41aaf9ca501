"""`Results`: what an experiment itself found at one point of a sweep: its rows, the ends of its curves, its theory.

With one seed they are those of the run. With several a number that differs between seeds is its mean, with the 95 %
interval of the mean (Student t) beside it under `ci95_` and its name; words that differ are counted. All of it is plain
data, so that any engine can send it from another process or machine.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, TypeGuard

from lockstep.lab.findings import Curve, Findings, Picture
from lockstep.simulate.sample import student_t
from lockstep.types.plain import Json, picked, plain

Row = Json
Identity = tuple[tuple[str, ...], int]
"""The words that a row begins with, and how many rows before it begin with the same."""


@dataclass(frozen=True, slots=True)
class Results:
    """The results of one run, or of one point over its seeds."""

    rows: tuple[Row, ...] = ()
    """The table of the experiment."""
    ends: tuple[Row, ...] = ()
    """The last point of each curve: `label`, `theory`, and both axes under their names."""
    theory: tuple[Row, ...] = ()
    """`name`, `value`, `formula` and `source` of what theory gives."""
    picture: Picture | None = None
    """The axes of the curves."""

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self, "rows ends theory")


def results_of(found: Findings) -> Results:
    """What a sweep keeps of one run beside its checks."""
    picture = found.picture
    return Results(
        rows=tuple(plain(found.rows)),
        ends=() if picture is None else tuple(_end(curve, picture) for curve in found.curves if _ends(curve)),
        theory=tuple(plain(found.theory)),
        picture=picture,
    )


def pooled_results(several: Sequence[Results]) -> Results:
    """The results of one point from those of its seeds."""
    if len(several) == 1:
        return several[0]
    return Results(
        rows=_pooled_rows([one.rows for one in several]),
        ends=_pooled_rows([one.ends for one in several]),
        theory=_pooled_rows([one.theory for one in several]),
        picture=several[0].picture,
    )


def mean_and_ci95(values: Sequence[float]) -> tuple[float, tuple[float, float]]:
    """The mean and its 95 % interval, from the spread of the values; a single value is its own interval."""
    n = len(values)
    mean = math.fsum(values) / n
    spread = math.fsum((value - mean) ** 2 for value in values)
    half = student_t(0.975, n - 1) * math.sqrt(spread / (n - 1) / n) if n > 1 else 0.0
    return mean, (mean - half, mean + half)


def identified(rows: Sequence[Row]) -> dict[Identity, Row]:
    """The rows of one run by what tells them apart: the same row of another run has the same identity."""
    found: dict[Identity, Row] = {}
    before: dict[tuple[str, ...], int] = {}
    for row in rows:
        words = tuple(takewhile(lambda value: isinstance(value, str), row.values()))
        found[words, before.get(words, 0)] = row
        before[words] = before.get(words, 0) + 1
    return found


def is_interval(key: str) -> bool:
    """Whether a cell is the interval of another one."""
    return "ci95" in key.split("_")


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a cell has a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _ends(curve: Curve) -> bool:
    """Whether the curve has a last point, or says where it diverged."""
    return bool(len(curve.x)) or curve.diverged_at is not None


def _end(curve: Curve, picture: Picture) -> Row:
    """The last point; a curve that diverged has no value there."""
    found: Row = {"label": curve.label, "theory": curve.theory}
    if curve.diverged_at is not None:
        return found | {picture.x: None, picture.y: None, f"diverged_at_{picture.x}": curve.diverged_at}
    last = float(curve.y[-1])
    found |= {picture.x: float(curve.x[-1]), picture.y: last}
    if curve.half_ci95 is not None:
        half = float(curve.half_ci95[-1])
        found[f"ci95_{picture.y}"] = [last - half, last + half]
    return found


def _pooled_rows(runs: Sequence[Sequence[Row]]) -> tuple[Row, ...]:
    """The rows of all runs, in the order of the first that has them."""
    each = [identified(rows) for rows in runs]
    names = dict.fromkeys(name for one in each for name in one)
    return tuple(_pooled_row([one[name] for one in each if name in one], len(runs)) for name in names)


def _pooled_row(rows: Sequence[Row], seeds: int) -> Row:
    """One row over its seeds; the intervals within a run give way to those between runs."""
    keys = dict.fromkeys(key for row in rows for key in row if not is_interval(key))
    found: Row = {}
    for key in keys:
        found |= _pooled_cell(key, [row.get(key) for row in rows])
    return found if len(rows) == seeds else found | {"seeds": len(rows)}


def _pooled_cell(key: str, values: Sequence[Any]) -> Mapping[str, Any]:
    """A cell over its seeds: itself where they all have it, else the mean with its interval, or words with counts.

    Under `seeds_` and the key stands how many have a number, where some have none.
    """
    if all(value == values[0] for value in values):
        return {key: values[0]}
    if all(value is None or isinstance(value, float) or is_number(value) for value in values):
        return _pooled_number(key, [value for value in values if is_number(value)], len(values))
    if all(isinstance(value, list) and len(value) == len(values[0]) for value in values):
        cells = [_pooled_cell(key, one) for one in zip(*values, strict=True)]
        ends = [cell.get(f"ci95_{key}", [cell[key], cell[key]]) for cell in cells]
        return {key: [cell[key] for cell in cells], f"ci95_{key}": ends}
    counted = {str(value): sum(str(one) == str(value) for one in values) for value in values}
    return {key: ", ".join(f"{word} ({count} of {len(values)})" for word, count in counted.items())}


def _pooled_number(key: str, known: Sequence[float], seeds: int) -> Row:
    if not known:
        return {key: None}
    mean, interval = mean_and_ci95(known)
    found: Row = {key: mean if len(set(known)) > 1 else known[0]}
    if len(set(known)) > 1:
        found[f"ci95_{key}"] = list(interval)
    return found if len(known) == seeds else found | {f"seeds_{key}": len(known)}
