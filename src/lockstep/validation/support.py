"""`python -m lockstep.validation.support`: which devices, programs and formats published steps are of.

Its output is `planner/support.toml`, from which `lockstep support` and every answer say what they rest on.
"""

from __future__ import annotations

import numpy as np

from lockstep.types.plain import Json
from lockstep.validation import fit
from lockstep.validation.report import TABLES, validate


def published() -> list[Json]:
    """One entry for each device, program and format, in alphabetical order."""
    fitted = {name for name, _ in fit.TABLES}
    rows: dict[tuple[str, str, str], list[tuple[bool, float]]] = {}
    for one in validate(name for name, table in TABLES.items() if table.quantity == "step_time_s").tables:
        cases = {case.row: case for case in one.table.cases()}
        for error in one.errors:
            case = cases[error.row]
            key = case.cluster.device.name, error.stack, case.job.recipe.dtype
            rows.setdefault(key, []).append((one.table.name in fitted, abs(error.unseen_frac or 0.0)))
    return [
        {
            "device": device,
            "stack": stack,
            "dtype": dtype,
            "rows": len(found),
            "fitted": any(part for part, _ in found),
            "error_frac": float(f"{np.median([size for _, size in found]):.2g}"),
        }
        for (device, stack, dtype), found in sorted(rows.items())
    ]


def main() -> None:
    """Prints them as TOML."""
    print("# Published steps by device, program and format: the output of `python -m lockstep.validation.support`.")
    for row in published():
        print("[[published]]")
        for name, value in row.items():
            print(
                f"{name} = {str(value).lower() if isinstance(value, bool) else repr(value).replace(chr(39), chr(34))}"
            )


if __name__ == "__main__":
    main()
