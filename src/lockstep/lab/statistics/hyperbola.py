"""The hyperbola of steps against examples, fitted to measured steps.

    log S = log S_min + log(1 + B_crit / B)
is fitted by least squares in the logarithms of S_min and B_crit (Gauss-Newton), so errors are shares of the steps and
both stay positive. Intervals are those of the linearised fit: Student t with n - 2 degrees of freedom, in logarithms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from lockstep.errors import BadInput
from lockstep.lab.findings import Array
from lockstep.methods.critical_batch import steps as hyperbola
from lockstep.simulate.sample import student_t

ROUNDS = 100


@dataclass(frozen=True, slots=True)
class Hyperbola:
    """Least steps and critical batch with their 95 % intervals, and the largest error of a point."""

    least_steps: float
    least_steps_ci95: tuple[float, float]
    critical_batch: float
    critical_batch_ci95: tuple[float, float]
    worst_frac: float

    @property
    def least_examples(self) -> float:
        """E_min."""
        return self.least_steps * self.critical_batch

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        return {name: getattr(self, name) for name in self.__slots__} | {"least_examples": self.least_examples}


def fit_hyperbola(batch: Array, steps: Array) -> Hyperbola:
    """The hyperbola through (batch, steps); needs 3 points at 2 batch sizes or more, all finite and positive."""
    batch, steps = np.asarray(batch, dtype=np.float64), np.asarray(steps, dtype=np.float64)
    if len(batch) < 3 or len(np.unique(batch)) < 2 or not (steps > 0).all() or not np.isfinite(steps).all():
        raise BadInput("needs at least 3 points at 2 batch sizes, all steps finite and positive")
    logs = np.log(steps)
    found = np.array([logs.min(), np.log(np.sqrt(batch.min() * batch.max()))])
    for _ in range(ROUNDS):
        slope, error = _linearised(found, batch, logs)
        change = np.clip(np.linalg.lstsq(slope, error, rcond=None)[0], -1, 1)
        found = found + change
        if np.abs(change).max() < 1e-12:
            break
    slope, error = _linearised(found, batch, logs)
    freedom = len(batch) - 2
    covariance = np.linalg.pinv(slope.T @ slope) * float(error @ error) / freedom
    half = student_t(0.975, freedom) * np.sqrt(np.diag(covariance))
    least, critical = (
        (math.exp(value), (math.exp(value - width), math.exp(value + width)))
        for value, width in zip(found.tolist(), half.tolist(), strict=True)
    )
    worst = float(np.abs(hyperbola(batch, least[0], critical[0]) / steps - 1).max())
    return Hyperbola(*least, *critical, worst_frac=worst)


def _linearised(found: Array, batch: Array, logs: Array) -> tuple[Array, Array]:
    """(derivatives by both logarithms, errors) of the model at `found`."""
    ratio = np.exp(found[1]) / batch
    slope = np.stack([np.ones_like(batch), ratio / (1 + ratio)], axis=1)
    return slope, logs - found[0] - np.log1p(ratio)
