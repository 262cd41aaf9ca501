"""Quadratics: f(x) = 1/2 sum_j h_j (x_j - b_j)^2, with a spectrum of choice and noise of known size.

The axes are the eigenvectors. That is no restriction for methods that only add up gradients: turning the space turns
their path. (It is one for methods that look at single coordinates: sign descent, top-k, Adam.)
With noise (the noisy quadratic model): gradient + xi, xi independent with standard deviation s in every direction.

Source of the model: G. Zhang et al., "Which algorithmic choices matter at which batch sizes?", NeurIPS 2019.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lockstep.errors import BadInput, UnknownName
from lockstep.lab.findings import Array
from lockstep.lab.objectives.objective import Objective

SPECTRA = ("logarithmic", "linear", "two-valued")


def spectrum(kind: str, dimension: int, condition: float, largest: float = 1.0) -> Array:
    """`dimension` curvatures from largest / condition to `largest`, evenly spaced on the scale that `kind` says."""
    if kind not in SPECTRA:
        raise UnknownName("spectrum", kind, SPECTRA)
    if dimension < 1 or not condition >= 1:
        raise BadInput(
            f"a spectrum needs a dimension and a condition number of 1 or more, got {dimension}, {condition}"
        )
    low = largest / condition
    if kind == "logarithmic":
        return np.geomspace(low, largest, dimension)
    if kind == "linear":
        return np.linspace(low, largest, dimension)
    return np.where(np.arange(dimension) < dimension // 2, low, largest)


@dataclass(frozen=True, slots=True, eq=False)
class Quadratic(Objective):
    """Curvatures h and optimum b of shape (dimension,)."""

    curvatures: Array
    optimum: Array

    @property
    def dimension(self) -> int:
        return len(self.curvatures)

    @property
    def smoothness(self) -> float:
        return float(self.curvatures.max())

    @property
    def strong_convexity(self) -> float:
        return float(self.curvatures.min())

    @property
    def lowest(self) -> float:
        return 0.0

    def loss(self, parameters: Array) -> Array:
        away = parameters - self.optimum
        found: Array = 0.5 * (self.curvatures * away * away).sum(-1)
        return found

    def gradient(self, parameters: Array) -> Array:
        found: Array = self.curvatures * (parameters - self.optimum)
        return found
