"""`regret(cases, predicted)`: what choosing a layout by its prediction costs, among the layouts that a table measured.

    regret of a question = measured seconds of the layout chosen / least measured seconds - 1

A question is all rows of one job on one cluster by one software, with at least LEAST layouts; of a layout that was
measured several times, by several releases, the fastest counts. Chosen is the layout predicted fastest; or, as the
planner does by default (`decide/planner/robust.py`), of those at most 3 % slower the one that is fastest when links and
software are slow.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lockstep.base.records import dataclass, replace
from lockstep.base.types.plain import Json, picked
from lockstep.check.validation.case import Case
from lockstep.decide.planner.interval import ends_of, spread_on
from lockstep.decide.planner.search import NEAR_FRAC
from lockstep.price.layout import Layout

LEAST = 3


@dataclass(frozen=True, slots=True)
class Regret:
    """What choosing costs, over the questions of a table."""

    questions: int
    mean_frac: float
    """Of the layout predicted fastest."""
    max_frac: float
    robust_mean_frac: float
    """Of the robust choice."""
    robust_max_frac: float

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self)


@dataclass(frozen=True, slots=True)
class _Row:
    """A layout that was measured."""

    predicted_s: float
    measured_s: float
    case: Case

    @property
    def badly_s(self) -> float:
        """Seconds when links and software are slow."""
        case = self.case
        found = ends_of(case.job, case.cluster, case.layout.grid())
        return float(found.badly_s(spread_on(case.cluster.device)))


def regret(cases: Sequence[Case], predicted: Sequence[float]) -> Regret | None:
    """The regret of a table's questions; None where it has none."""
    found = [rows for rows in _questions(cases, predicted) if len(rows) >= LEAST]
    if not found:
        return None
    by_time, robust = [], []
    for rows in found:
        least_s = min(row.measured_s for row in rows)
        fastest = min(rows, key=lambda row: row.predicted_s)
        near = [row for row in rows if row.predicted_s <= (1 + NEAR_FRAC) * fastest.predicted_s]
        chosen = min(near, key=lambda row: row.badly_s) if len(near) > 1 else fastest
        by_time.append(fastest.measured_s / least_s - 1)
        robust.append(chosen.measured_s / least_s - 1)
    ends = (float(of(lost)) for lost in (by_time, robust) for of in (np.mean, np.max))
    return Regret(len(found), *ends)


def _questions(cases: Sequence[Case], predicted: Sequence[float]) -> list[list[_Row]]:
    """The layouts of each question."""
    found: dict[object, dict[Layout, _Row]] = {}
    for case, seconds in zip(cases, predicted, strict=True):
        # Overlapped sends belong to a layout: of 1F1B only the interleaved one has them.
        recipe = replace(case.job.recipe, overlap_pp=False)
        rows = found.setdefault((case.job.model, recipe, case.job.devices, case.cluster.name), {})
        known = rows.get(case.layout)
        measured_s = case.measured if known is None else min(case.measured, known.measured_s)
        rows[case.layout] = _Row(seconds, measured_s, case)
    return [list(rows.values()) for rows in found.values()]
