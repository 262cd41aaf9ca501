"""`python tools/fit/support.py`: which devices, programs and formats published steps are of.

Its output is `decide/planner/support.toml`, from which `lockstep support` and every answer say what they rest on. With
`--curves`, the typical error of each efficiency curve: `describe/hardware/catalog/typical_errors.toml`.
"""

from __future__ import annotations

import argparse

import numpy as np

import fit
from lockstep.base.types.plain import Json
from lockstep.check.validation.typical_errors import published_steps, rounded, typical_errors


def published() -> list[Json]:
    """One entry for each device, program and format, in alphabetical order."""
    fitted = {name for name, _ in fit.TABLES}
    rows: dict[tuple[str, str, str], list[tuple[bool, float]]] = {}
    for table, case, error in published_steps():
        key = case.cluster.device.name, error.stack, case.job.recipe.dtype
        rows.setdefault(key, []).append((table in fitted, abs(error.left_out_frac or 0.0)))
    return [
        {
            "device": device,
            "stack": stack,
            "dtype": dtype,
            "rows": len(found),
            "fitted": any(part for part, _ in found),
            "error_frac": rounded(np.median([size for _, size in found])),
        }
        for (device, stack, dtype), found in sorted(rows.items())
    ]


def main() -> None:
    """Prints them as TOML."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--curves", action="store_true", help="typical errors by efficiency curve")
    if parser.parse_args().curves:
        print("# Typical errors of efficiency curves: the output of `python tools/fit/support.py --curves`.")
        for name, value in typical_errors().items():
            print(f"{name} = {value:g}")
        return
    print("# Published steps by device, program and format: the output of `python tools/fit/support.py`.")
    for row in published():
        print("[[published]]")
        for name, value in row.items():
            print(
                f"{name} = {str(value).lower() if isinstance(value, bool) else repr(value).replace(chr(39), chr(34))}"
            )


if __name__ == "__main__":
    main()
