"""Alpha, beta and gamma from times, by weighted least squares on relative errors, robust against outliers.

    minimise  sum_i ((a_i alpha + b_i beta + g_i gamma - t_i) / t_i)^2,   alpha, beta, gamma >= 0
with a, b, g the latency steps, bytes and reduced bytes in series of the algorithm that ran. First over the KEPT_FRAC of
the points that fit best (least trimmed squares, by concentration steps); points farther from that fit than OUTLIER
robust standard deviations of log time are named and left out; then over the rest. Intervals are Student's t with the
covariance of linear least squares.

Sources: P. Rousseeuw, K. Van Driessen, "Computing LTS regression for large data sets" (2006), for the steps; P.
Rousseeuw, C. Croux, "Alternatives to the median absolute deviation", JASA 88 (1993), for the constant 1.4826.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lockstep.errors import BadInput

Array = npt.NDArray[Any]
KEPT_FRAC = 0.75
STEPS = 20
OUTLIER = 8.0
"""Robust standard deviations beyond which a point is named; assumed. Few points tell their spread badly: 5 would throw
out good ones and make the intervals too narrow."""
MAD_TO_SIGMA = 1.4826
LEAST_SPREAD_FRAC = 0.02
"""Relative errors below this are never outliers, however exact the rest is; assumed."""
TINY = 1e-12


@dataclass(frozen=True, slots=True)
class Solution:
    """Constants with 95 % intervals; a constant at its bound of zero has no interval below it."""

    values: Array
    low: Array
    high: Array
    errors_frac: Array
    """Signed relative error at every point, outliers included."""
    outliers: Array
    """Which points were left out."""


def solve(terms: Array, times_s: Array, *, robust: bool = True) -> Solution:
    """Constants of the columns of `terms`, shape (points, constants).

    Raises BadInput with fewer points than constants, or when scipy is missing.
    """
    if len(times_s) < terms.shape[1]:
        raise BadInput(f"{len(times_s)} times cannot give {terms.shape[1]} constants; measure more sizes")
    try:
        outliers = (
            _outliers(terms, times_s) if robust and len(times_s) > terms.shape[1] + 1 else np.zeros(len(times_s), bool)
        )
        relative = terms / times_s[:, np.newaxis]
        values, low, high = _with_intervals(relative[~outliers])
    except (np.linalg.LinAlgError, RuntimeError) as error:
        raise BadInput(f"these sizes and times give no constants ({error}); look for a wrong unit") from None
    return Solution(values, low, high, relative @ values - 1, outliers)


def _scaled(relative: Array) -> tuple[Array, Array]:
    """Columns of about one, and what they were divided by."""
    scale = np.maximum(np.linalg.norm(relative, axis=0), np.finfo(float).tiny)
    return relative / scale, scale


def _trimmed_errors(terms: Array, times_s: Array) -> Array:
    """Logarithm of fitted over measured time at every point, by the least trimmed squares."""
    columns, _ = _scaled(terms / times_s[:, np.newaxis])
    most = max(int(np.ceil(KEPT_FRAC * len(columns))), terms.shape[1])
    kept, error = np.arange(len(columns)), np.zeros(len(columns))
    for _ in range(STEPS):
        values, _ = _scipy("optimize").nnls(columns[kept], np.ones(len(kept)))
        error = np.log(np.maximum(columns @ values, TINY))
        best = np.sort(np.argsort(np.abs(error), kind="stable")[:most])
        if np.array_equal(best, kept):
            break
        kept = best
    return error


def _outliers(terms: Array, times_s: Array) -> Array:
    error = _trimmed_errors(terms, times_s)
    spread = MAD_TO_SIGMA * float(np.median(np.abs(error - np.median(error))))
    return np.asarray(np.abs(error) > np.log1p(max(OUTLIER * spread, LEAST_SPREAD_FRAC)))


def _with_intervals(relative: Array) -> tuple[Array, Array, Array]:
    """(values, low, high) of non-negative least squares; constants at zero are taken out before the covariance."""
    columns, scale = _scaled(relative)
    values, _ = _scipy("optimize").nnls(columns, np.ones(len(columns)))
    free = values > 0
    width = np.zeros_like(values)
    freedom = len(columns) - int(free.sum())
    if freedom > 0 and free.any():
        inside = columns[:, free]
        residual = inside @ values[free] - 1
        covariance = np.linalg.pinv(inside.T @ inside) * float(residual @ residual) / freedom
        width[free] = _scipy("stats").t.ppf(0.975, freedom) * np.sqrt(np.maximum(np.diag(covariance), 0))
    low, high = np.maximum(values - width, 0), values + width
    return values / scale, low / scale, high / scale


def _scipy(part: str) -> Any:
    """A part of scipy. Raises BadInput when the extra is not installed."""
    from importlib import import_module

    try:
        return import_module(f"scipy.{part}")
    except ImportError:
        raise BadInput("fits need scipy: pip install 'lockstep[fit]'", "scipy") from None
