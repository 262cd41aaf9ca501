"""A straight line through times over sizes, by weighted least squares on relative errors.

    minimise  sum_i ((latency + size_i s_per_B - time_i) / time_i)^2
so that a microsecond at 8 B counts as much as a second at 1 GB; unweighted squares would see the largest sizes only.
Covariance: s^2 (X'X)^-1 with s^2 the mean squared relative residual over the degrees of freedom.

Source: ordinary weighted least squares, e.g. N. Draper, H. Smith, "Applied regression analysis" (1998), chapter 9.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lockstep.errors import BadInput

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Line:
    """time = latency_s + size_B * s_per_B, with standard errors."""

    latency_s: float
    s_per_B: float
    latency_error_s: float
    s_per_B_error: float
    points: int

    def time_s(self, size_B: Array | float) -> Array | float:
        """Predicted time of a size."""
        return self.latency_s + size_B * self.s_per_B


def fit_line(sizes_B: Array, times_s: Array) -> Line:
    """The line through at least two different sizes; a latency below zero is set to zero and the slope fitted again.

    Raises BadInput for fewer sizes, or times that are not positive.
    """
    sizes_B, times_s = np.asarray(sizes_B, dtype=float), np.asarray(times_s, dtype=float)
    if len(np.unique(sizes_B)) < 2:
        raise BadInput(f"a line needs times at 2 sizes or more, got {len(np.unique(sizes_B))}")
    if not (np.isfinite(times_s).all() and (times_s > 0).all()):
        raise BadInput("times must be positive and finite")
    design = np.stack((1 / times_s, sizes_B / times_s), axis=1)
    solved, errors = _solve(design)
    if solved[0] < 0:
        (slope,), (error,) = _solve(design[:, 1:])
        return Line(0.0, slope, 0.0, error, len(sizes_B))
    return Line(solved[0], solved[1], errors[0], errors[1], len(sizes_B))


def _solve(design: Array) -> tuple[list[float], list[float]]:
    """Coefficients that bring every row of `design` nearest to one, and their standard errors."""
    scale = np.linalg.norm(design, axis=0)
    solution = np.linalg.lstsq(design / scale, np.ones(len(design)), rcond=None)[0]
    residual = design / scale @ solution - 1
    freedom = len(design) - design.shape[1]
    variance = float(residual @ residual) / freedom if freedom else 0.0
    covariance = np.linalg.pinv((design / scale).T @ (design / scale)) * variance
    return (solution / scale).tolist(), (np.sqrt(np.diag(covariance)) / scale).tolist()
