"""`python -m lockstep.validation.support`: which devices, programs and formats published steps are of.

Its output is `planner/support.toml`, from which `lockstep support` and every answer say what they rest on. With
`--curves`, the typical error of each efficiency curve: `hardware/catalog/typical_errors.toml`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np

from lockstep.hardware.device import curves
from lockstep.types.plain import Json
from lockstep.validation import fit
from lockstep.validation.case import Case
from lockstep.validation.report import TABLES, Error, validate

PROGRAMS = 3
"""Programs whose steps on a curve's own devices it takes to say what that curve errs by."""


def published() -> list[Json]:
    """One entry for each device, program and format, in alphabetical order."""
    fitted = {name for name, _ in fit.TABLES}
    rows: dict[tuple[str, str, str], list[tuple[bool, float]]] = {}
    for table, case, error in _steps():
        key = case.cluster.device.name, error.stack, case.job.recipe.dtype
        rows.setdefault(key, []).append((table in fitted, abs(error.unseen_frac or 0.0)))
    return [
        {
            "device": device,
            "stack": stack,
            "dtype": dtype,
            "rows": len(found),
            "fitted": any(part for part, _ in found),
            "error_frac": _rounded(np.median([size for _, size in found])),
        }
        for (device, stack, dtype), found in sorted(rows.items())
    ]


def typical_errors() -> dict[str, float]:
    """By curve, the mean over programs of the median error of each, none of them fitted to, on the curve's devices."""
    sizes: dict[str, dict[str, list[float]]] = {}
    for _, case, error in _steps():
        curve = case.cluster.device.efficiency
        if case.cluster.device.name in curve.devices:
            by_program = sizes.setdefault(curve.name, {})
            by_program.setdefault(error.stack, []).append(abs(error.unseen_frac or 0.0))
    return {
        name: _rounded(np.mean([np.median(found) for found in sizes[name].values()]))
        for name in curves()
        if len(sizes.get(name, {})) >= PROGRAMS
    }


def _steps() -> Iterator[tuple[str, Case, Error]]:
    """Every published step: its table, the case, and what is predicted beside it."""
    for one in validate(name for name, table in TABLES.items() if table.quantity == "step_time_s").tables:
        cases = {case.row: case for case in one.table.cases()}
        for error in one.errors:
            yield one.table.name, cases[error.row], error


def _rounded(value: float | np.floating) -> float:
    return float(f"{value:.2g}")


def main() -> None:
    """Prints them as TOML."""
    parser = argparse.ArgumentParser(prog="python -m lockstep.validation.support")
    parser.add_argument("--curves", action="store_true", help="typical errors by efficiency curve")
    if parser.parse_args().curves:
        print("# Typical errors of efficiency curves: the output of `python -m lockstep.validation.support --curves`.")
        for name, value in typical_errors().items():
            print(f"{name} = {value:g}")
        return
    print("# Published steps by device, program and format: the output of `python -m lockstep.validation.support`.")
    for row in published():
        print("[[published]]")
        for name, value in row.items():
            print(
                f"{name} = {str(value).lower() if isinstance(value, bool) else repr(value).replace(chr(39), chr(34))}"
            )


if __name__ == "__main__":
    main()
