"""`python -m lockstep.validation.fit`: one efficiency curve per device type, fitted to all calibration rows at once.

Minimises a soft-L1 norm of log(predicted / measured) over the cases of a device type, each table weighing the same
however many rows it has, plus a weak pull towards the starting point so that a constant that the rows say nothing
about stays where physics would put it. Prints the curve as in `hardware/catalog/efficiency.toml`, and the errors.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lockstep.hardware import Efficiency
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


def calibration(device: str) -> list[Sequence[Case]]:
    """The groups of cases that a device type's curve is fitted to; every second vTrain row is kept for judging."""
    foundry = llm_foundry.cases()
    tuned_fp8 = nemo.cases()
    if device == "b200":
        return [[case for case in tuned_fp8 if "h100" not in case.cluster.device.name]]
    if device == "h100":
        return [
            [case for case in foundry if "h100" in case.row],
            [case for case in tuned_fp8 if "h100" in case.cluster.device.name],
        ]
    tuned = [case for case in narayanan.cases() if case.row.startswith(("sc21", "t2-ptd", "readme"))]
    single, multi = vtrain.SINGLE.cases()[::2], vtrain.MULTI.cases()[::2]
    return [[case for case in foundry if "a100" in case.row], tuned, korthikanti.time_cases(), single, multi]


def with_curve(case: Case, curve: Efficiency) -> Case:
    """The case on the same hardware with another efficiency curve."""
    device = replace(case.cluster.device, efficiency=curve)
    return replace(case, cluster=replace(case.cluster, device=device))


def log_errors(cases: Sequence[Case], curve: Efficiency) -> NDArray[np.float64]:
    """log(predicted / measured) of every case."""
    return np.array([np.log(case.predict(with_curve(case, curve)) / case.measured) for case in cases])


def fit(device: str) -> Efficiency:
    """The fitted curve of a device type."""
    from scipy.optimize import least_squares

    groups = calibration(device)
    start = np.array(START[device])
    blank = replace(groups[0][0].cluster.device.efficiency, name=device)

    def residuals(logs: NDArray[np.float64]) -> NDArray[np.float64]:
        curve = _curve(blank, np.exp(logs))
        parts = [log_errors(cases, curve) / np.sqrt(len(cases)) for cases in groups]
        return np.concatenate([*parts, PULL * (logs - np.log(start))])

    bounds = (np.log(np.maximum(LOWEST, 1e-9)), np.log(HIGHEST))
    found = least_squares(residuals, np.log(start), bounds=bounds, loss="soft_l1", f_scale=SCALE, max_nfev=30)
    return _curve(blank, [float(f"{value:.3g}") for value in np.exp(found.x)])


def _curve(blank: Efficiency, values: Iterable[float]) -> Efficiency:
    """The curve with these constants, in the order of NAMES."""
    constants: dict[str, Any] = {name: float(value) for name, value in zip(NAMES, values, strict=True)}
    return replace(blank, **constants)


def main() -> None:
    """Fits and prints every calibrated device type."""
    for device in sys.argv[1:] or START:
        curve = fit(device)
        print(f"[{device}]")
        for name in NAMES:
            print(f"{name} = {getattr(curve, name):g}")
        for cases in calibration(device):
            errors = np.expm1(log_errors(cases, curve))
            median, mean = np.median(np.abs(errors)), np.mean(errors)
            print(f"# {cases[0].row[:30]:30} {len(cases):4d} rows, median |error| {median:.3f}, mean {mean:+.3f}")


if __name__ == "__main__":
    main()
