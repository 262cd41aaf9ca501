"""`python tools/fit/spread.py`: the constants of the interval around a step time, from published steps.

Every published step is predicted with nothing fitted to its software (`check/validation/without_program.py`). What it
took beside that, as y = measured / predicted - 1, gives the constants of `decide/planner/interval.py` by quantile
regression: of all planes

    y = above + above_per_host h                                   no coefficient below 0

the one with the least sum of w max(q (y - plane), (q - 1)(y - plane)), q = 1 - (1 - level) / 2, with w one over the
number of rows of the software, so that every program weighs the same; and of ln(predicted / measured) the same with a
constant alone.

Source: Koenker and Bassett 1978, "Regression Quantiles" (Econometrica 46), for the regression.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence

import numpy as np

from lockstep.base.types.arrays import Floats
from lockstep.check.validation.coverage import Observed, observed
from lockstep.check.validation.report import TABLES
from lockstep.decide.planner.interval import known_spread

CONSTANTS = ("below", "above", "above_per_host")
DIGITS = 3
FEW = {"few"}
LONGER = FEW | {"experts", "scale"}
"""What may be doubted of rows that the upper end is fitted to, and the lower: what else is adds to these constants."""
LEFT_OUT_FRAC = 0.04
"""What is added to the level: programs left out are covered less often than those fitted to, 89.2 % at 90 %, and not
alike. With this the least covered one of twenty rows has three quarters of them inside: nanotron, of which 90 % covers
23 of 31."""


def fitted(rows: Sequence[Observed], level_frac: float) -> dict[str, float]:
    """The three constants from these rows."""
    quantile, ends = 1 - (1 - level_frac) / 2, []
    for doubted, sign in ((LONGER, -1.0), (FEW, 1.0)):
        here = [row for row in rows if set(row.ends.doubts.names) <= doubted]
        weight, errors = weights([row.software for row in here]), np.array([row.log_error for row in here])
        columns = np.array([[1.0, float(row.ends.host_frac)][: 2 if sign > 0 else 1] for row in here])
        ends.append(plane(columns, np.expm1(errors) if sign > 0 else -errors, weight, quantile))
    below, above = ends
    return {name: float(f"{value:.{DIGITS}g}") for name, value in zip(CONSTANTS, (*below, *above), strict=True)}


def weights(software: Sequence[str]) -> Floats:
    """One over the number of rows of each row's software."""
    counts = Counter(software)
    return np.array([1 / counts[name] for name in software])


def plane(columns: Floats, values: Floats, weight: Floats, quantile: float) -> Floats:
    """Coefficients, none below 0, of the plane through a quantile of `values`: (columns,)."""
    from scipy import sparse
    from scipy.optimize import linprog

    number, width = columns.shape
    cost = np.concatenate([np.zeros(width), quantile * weight, (1 - quantile) * weight])
    sides = sparse.hstack([sparse.csr_matrix(columns), sparse.eye(number), -sparse.eye(number)])
    found: Floats = linprog(cost, A_eq=sides, b_eq=values, bounds=(0, None), method="highs").x[:width]
    return found


def _print(found: dict[str, float]) -> None:
    for key, value in found.items():
        print(f"{key} = {value:g}")


def main() -> None:
    """Fits the constants to all published steps, and without each software."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--each", action="store_true", help="leave every software out in turn: interval_left_out.toml")
    each = parser.parse_args().each
    level_frac = known_spread().level_frac + LEFT_OUT_FRAC
    timed = [table for table in TABLES.values() if table.quantity == "step_time_s"]
    rows = [observed(case) for table in timed for case in table.cases()]
    if not each:
        _print(fitted(rows, level_frac))
        return
    for software in dict.fromkeys(row.software for row in rows):
        print(f"[{software}]")
        _print(fitted([row for row in rows if row.software != software], level_frac))


if __name__ == "__main__":
    main()
