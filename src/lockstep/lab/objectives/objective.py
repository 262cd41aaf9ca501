"""`Objective`: a function to minimise, with what is known about it; and the sharpness of any of them, measured.

Parameters are the last axis; everything before it is trials, workers or both.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from lockstep.lab.findings import Array

POWER_STEPS = 60


class Objective(ABC):
    """A loss with its gradient."""

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Number of parameters."""

    @property
    def smoothness(self) -> float | None:
        """L, a bound on the curvature everywhere; None when there is none or none is known."""
        return None

    @property
    def strong_convexity(self) -> float:
        """mu, a lower bound on the curvature everywhere; 0 when it is not strongly convex."""
        return 0.0

    @property
    def lowest(self) -> float | None:
        """The smallest loss; None when it is not known."""
        return None

    @abstractmethod
    def loss(self, parameters: Array) -> Array:
        """Loss of every row of `parameters`."""

    @abstractmethod
    def gradient(self, parameters: Array) -> Array:
        """Gradient at every row of `parameters`."""


def curvature_along(objective: Objective, parameters: Array, direction: Array, width: float = 1e-5) -> Array:
    """Hessian times `direction` (of length 1) by a central difference of gradients; error of the order width^2."""
    ahead, behind = (objective.gradient(parameters + sign * width * direction) for sign in (1.0, -1.0))
    found: Array = (ahead - behind) / (2 * width)
    return found


def sharpness(objective: Objective, parameters: Array, seed: int = 0, steps: int = POWER_STEPS) -> float:
    """Size of the largest curvature at one point, by `steps` power iterations of two gradients each."""
    direction = np.random.default_rng(seed).standard_normal(objective.dimension)
    size = float(np.linalg.norm(direction))
    for _ in range(steps):
        direction = direction / size
        direction = curvature_along(objective, parameters, direction)
        size = float(np.linalg.norm(direction))
        if size == 0:
            return 0.0
    return size
