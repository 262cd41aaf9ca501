"""What an efficiency curve typically errs by, from published steps on its own devices: a section of the page."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lockstep.check.validation.case import Case
from lockstep.check.validation.report import TABLES, Error, validate
from lockstep.describe.hardware.device import curves

PROGRAMS = 3
"""Programs whose steps on a curve's own devices it takes to say what that curve errs by."""


def typical_errors() -> dict[str, float]:
    """By curve, the mean over programs of the median error of each, none of them fitted to, on the curve's devices."""
    sizes: dict[str, dict[str, list[float]]] = {}
    for _, case, error in published_steps():
        curve = case.cluster.device.efficiency
        if case.cluster.device.name in curve.devices:
            by_program = sizes.setdefault(curve.name, {})
            by_program.setdefault(error.stack, []).append(abs(error.left_out_frac or 0.0))
    return {
        name: rounded(np.mean([np.median(found) for found in sizes[name].values()]))
        for name in curves()
        if len(sizes.get(name, {})) >= PROGRAMS
    }


def published_steps() -> Iterator[tuple[str, Case, Error]]:
    """Every published step: its table, the case, and what is predicted beside it."""
    for one in validate(name for name, table in TABLES.items() if table.quantity == "step_time_s").tables:
        cases = {case.row: case for case in one.table.cases()}
        for error in one.errors:
            yield one.table.name, cases[error.row], error


def rounded(value: float | np.floating) -> float:
    """An error as it is shown, to two digits."""
    return float(f"{value:.2g}")
