"""`nearest(estimate)`: published steps that are most like a question, with the errors of their predictions.

    distance^2 = ln(devices / devices')^2 + ln(parameters / parameters')^2 + ln(seq / seq')^2 / 4
                 + 4 where the device differs + 1 where the software does + 1 where the format does

A rule of order, fitted to nothing: a factor of e in size weighs as much as another software, another device twice. Of
one table at most MOST_OF_ONE rows are taken, so that one sweep does not fill the list. A row is predicted with
constants that its software had no part in (`without_program`).
"""

from __future__ import annotations

import math
from functools import cache

from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json, picked
from lockstep.check.validation.case import Case
from lockstep.check.validation.report import TABLES
from lockstep.check.validation.without_program import without_program
from lockstep.decide.planner.estimate import Estimate
from lockstep.describe.workload import parameters

MOST_OF_ONE = 3
SEQ_WEIGHT, DEVICE, SOFTWARE, FORMAT = 0.25, 4.0, 1.0, 1.0


@dataclass(frozen=True, slots=True)
class Near:
    """A published step next to a question."""

    table: str
    case: Case
    distance: float
    predicted_s: float
    """Of a fit that knows no row of the same software."""

    @property
    def error_frac(self) -> float:
        """Predicted over measured, minus 1."""
        return self.predicted_s / self.case.measured - 1.0

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return {
            "table": self.table,
            **picked(self.case, "row measured"),
            **picked(self, "distance predicted_s error_frac"),
        }


def nearest(found: Estimate, count: int = 6) -> tuple[Near, ...]:
    """The `count` published steps that are most like the one estimated, the nearest first; ties in their order."""
    here = _sizes(found.job.devices, found.job.model, found.job.recipe.seq)
    names = _names(found)
    ranked = sorted((_distance(here, names, sizes, case), at) for at, (_, case, sizes) in enumerate(_published()))
    taken: dict[str, int] = {}
    chosen: list[Near] = []
    for distance, at in ranked:
        table, case, _ = _published()[at]
        taken[table] = taken.get(table, 0) + 1
        if taken[table] <= MOST_OF_ONE:
            chosen.append(Near(table, case, math.sqrt(distance), case.predict(without_program(case))))
        if len(chosen) == count:
            break
    return tuple(chosen)


Sizes = tuple[float, float, float]


@cache
def _published() -> tuple[tuple[str, Case, Sizes], ...]:
    """Every published step with its sizes."""
    tables = (table for table in TABLES.values() if table.quantity == "step_time_s")
    return tuple(
        (table.name, case, _sizes(case.job.devices, case.job.model, case.job.recipe.seq))
        for table in tables
        for case in table.cases()
    )


def _sizes(devices: int, model: object, seq: int) -> Sizes:
    return math.log(devices), math.log(_active(model)), math.log(seq)


@cache
def _active(model: object) -> float:
    return float(parameters(model).active)  # type: ignore[arg-type]


def _names(one: Estimate | Case) -> tuple[str, str, str]:
    return one.cluster.device.name, one.job.recipe.software.name, one.job.recipe.dtype


def _distance(here: Sizes, names: tuple[str, str, str], sizes: Sizes, case: Case) -> float:
    """The square of the distance."""
    ranks, size, length = (a - b for a, b in zip(here, sizes, strict=True))
    differs = (DEVICE, SOFTWARE, FORMAT)
    other = sum(weight for weight, a, b in zip(differs, names, _names(case), strict=True) if a != b)
    return ranks**2 + size**2 + SEQ_WEIGHT * length**2 + other
