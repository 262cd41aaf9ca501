"""`python -m lockstep.validation.fit`: one efficiency curve per device type, fitted to all calibration rows at once.

With `--leave-out TABLE` (what names of tables begin with: `vtrain` for both) a curve is fitted to the other tables
only; what it says of the table left out is an error out of sample.

Minimises a soft-L1 norm of log(predicted / measured) over the cases of a device type, each table weighing the same
however many rows it has, plus a weak pull towards the starting point so that a constant that the rows say nothing
about stays where physics would put it. Prints the curve as in `hardware/catalog/efficiency.toml`, and the errors.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lockstep.hardware import Efficiency
from lockstep.step import price_step
from lockstep.types.arrays import Floats
from lockstep.validation import korthikanti, llm_foundry, narayanan, nemo, vtrain
from lockstep.validation.case import Case

NAMES = (
    "matmul_max_frac", "matmul_bytes_factor", "stream_frac", "attention_forward_frac", "attention_backward_frac",
    "launch_s", "recompute_host_s", "step_s",
)  # fmt: skip
START = {
    "a100": (0.80, 1.0, 0.85, 0.60, 0.45, 15e-6, 1e-3, 0.02),
    "h100": (0.70, 1.0, 0.85, 0.40, 0.30, 10e-6, 1e-3, 0.02),
    "b200": (0.70, 1.0, 0.85, 0.40, 0.30, 10e-6, 1e-3, 0.02),
}
LOWEST = (0.40, 0.0, 0.70, 0.15, 0.10, 2e-6, 1e-5, 0.001)
HIGHEST = (0.95, 3.0, 0.95, 0.80, 0.70, 50e-6, 5e-3, 0.1)
PULL = 0.02
"""Weight of the starting point: a change by a factor e costs as much as an error of this size in a whole table."""
SCALE = 0.05
"""Errors beyond this size count linearly."""
DIFFERENCE = 1e-6
"""Step in the logarithm of a constant for derivatives, all of which one broadcast pass over the cases gives."""


def calibration(device: str) -> dict[str, Sequence[Case]]:
    """Cases by table that a device type's curve is fitted to; every second vTrain row is kept for judging."""
    foundry = llm_foundry.cases()
    tuned_fp8 = nemo.cases()
    if device == "b200":
        return {nemo.TABLE.name: [case for case in tuned_fp8 if "h100" not in case.cluster.device.name]}
    if device == "h100":
        return {
            llm_foundry.TABLE.name: [case for case in foundry if "h100" in case.row],
            nemo.TABLE.name: [case for case in tuned_fp8 if "h100" in case.cluster.device.name],
        }
    return {
        llm_foundry.TABLE.name: [case for case in foundry if "a100" in case.row],
        narayanan.TABLE.name: [case for case in narayanan.cases() if case.row.startswith(("sc21", "t2-ptd", "readme"))],
        korthikanti.TIME.name: korthikanti.time_cases(),
        vtrain.SINGLE.name: vtrain.SINGLE.cases()[::2],
        vtrain.MULTI.name: vtrain.MULTI.cases()[::2],
    }


def with_curve(case: Case, curve: Efficiency) -> Case:
    """The case on the same hardware with another efficiency curve."""
    device = replace(case.cluster.device, efficiency=curve)
    return replace(case, cluster=replace(case.cluster, device=device))


def log_errors(cases: Sequence[Case], curve: Efficiency) -> Floats:
    """log(predicted / measured) of every case: (cases,), or (cases, n) when each constant of the curve is n values."""
    told = [with_curve(case, curve) for case in cases]
    steps = [price_step(case.job, case.cluster, case.layout.grid()) for case in told]
    return np.array([np.log(step.step_time_s / case.measured) for step, case in zip(steps, cases, strict=True)])


def fit(device: str, left_out: str | None = None) -> Efficiency:
    """The fitted curve of a device type, without tables whose names begin with `left_out`."""
    from scipy.optimize import least_squares

    groups = [cases for table, cases in calibration(device).items() if not (left_out and table.startswith(left_out))]
    start = np.log(START[device])
    blank = replace(groups[0][0].cluster.device.efficiency, name=device)

    def residuals(logs: Floats) -> Floats:
        curve = _curve(blank, np.exp(logs))
        parts = [log_errors(cases, curve) / np.sqrt(len(cases)) for cases in groups]
        return np.concatenate([*parts, PULL * (logs.T - start).T])

    def jacobian(logs: Floats) -> Floats:
        found = residuals(logs[:, None] + DIFFERENCE * np.eye(len(NAMES), len(NAMES) + 1, 1))
        return (found[:, 1:] - found[:, :1]) / DIFFERENCE

    bounds = (np.log(np.maximum(LOWEST, 1e-9)), np.log(HIGHEST))
    found = least_squares(residuals, start, jacobian, bounds=bounds, loss="soft_l1", f_scale=SCALE, max_nfev=30)
    return _curve(blank, [float(f"{value:.3g}") for value in np.exp(found.x)])


def _curve(blank: Efficiency, values: Iterable[Any]) -> Efficiency:
    """The curve with these constants, numbers or arrays, in the order of NAMES."""
    return replace(blank, **dict(zip(NAMES, values, strict=True)))


def main() -> None:
    """Fits and prints every device type that was asked for."""
    parser = argparse.ArgumentParser(prog="python -m lockstep.validation.fit")
    parser.add_argument("devices", nargs="*", default=list(START), help=", ".join(START))
    parser.add_argument("--leave-out", metavar="TABLE", help="fit without tables whose names begin with this")
    arguments = parser.parse_args()
    for device in arguments.devices:
        curve = fit(device, arguments.leave_out)
        print(f"[{device}.{arguments.leave_out}]" if arguments.leave_out else f"[{device}]")
        for name in NAMES:
            print(f"{name} = {getattr(curve, name):g}")
        for table, cases in calibration(device).items():
            errors = np.expm1(log_errors(cases, curve))
            median, mean = np.median(np.abs(errors)), np.mean(errors)
            print(f"# {table:20} {len(cases):4d} rows, median |error| {median:.3f}, mean {mean:+.3f}")


if __name__ == "__main__":
    main()
