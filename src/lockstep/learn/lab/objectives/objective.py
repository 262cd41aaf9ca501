"""`Objective`: a function to minimize, with what is known about it; the sharpness of any of them, measured; landscapes.

Parameters are the last axis; everything before it is trials, workers or both. Landscapes are functions that are not
convex or not smooth, with known lowest values: where bounds on gradients, not on distances, must do.

    rosenbrock     sum (1 - x_j)^2 + 100 (x_(j+1) - x_j^2)^2        lowest 0 at (1, ..., 1); no L
    ripples        sum x_j^2 / 2 + (c / w^2) (1 - cos(w x_j))       lowest 0 at 0; L = 1 + c, curvature down to 1 - c
    saddle         sum_j s_j x_j^2 / 2 with s = (1, ..., 1, -1/4)   unbounded below; L = 1
    huber          sum min(x_j^2 / 2, |x_j| - 1/2)                  convex, slope at most 1; lowest 0, L = 1
    cliff          a plateau of slope 1e-3 that drops into a valley near 0: a small gradient now promises nothing later
Source of rosenbrock: H. H. Rosenbrock, The Computer Journal 1960.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Array

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


RIPPLE, WAVE = 2.0, 3.0
PLATEAU_SLOPE, CLIFF_HEIGHT, CLIFF_WIDTH = 1e-3, 1.0, 1.0


@dataclass(frozen=True, slots=True)
class Landscape(Objective):
    """A function with its gradient in `size` dimensions."""

    name: str
    size: int
    function: Callable[[Array], Array]
    slope: Callable[[Array], Array]
    largest_curvature: float | None
    minimum: float | None

    @property
    def dimension(self) -> int:
        return self.size

    @property
    def smoothness(self) -> float | None:
        return self.largest_curvature

    @property
    def lowest(self) -> float | None:
        return self.minimum

    def loss(self, parameters: Array) -> Array:
        return self.function(parameters)

    def gradient(self, parameters: Array) -> Array:
        return self.slope(parameters)


def _rosenbrock(x: Array) -> Array:
    found: Array = ((1 - x[..., :-1]) ** 2 + 100 * (x[..., 1:] - x[..., :-1] ** 2) ** 2).sum(-1)
    return found


def _rosenbrock_slope(x: Array) -> Array:
    found, valley = np.zeros_like(x), x[..., 1:] - x[..., :-1] ** 2
    found[..., :-1] += -2 * (1 - x[..., :-1]) - 400 * x[..., :-1] * valley
    found[..., 1:] += 200 * valley
    return found


def _ripples(x: Array) -> Array:
    found: Array = (x**2 / 2 + RIPPLE / WAVE**2 * (1 - np.cos(WAVE * x))).sum(-1)
    return found


def _ripples_slope(x: Array) -> Array:
    found: Array = x + RIPPLE / WAVE * np.sin(WAVE * x)
    return found


def _saddle_signs(x: Array) -> Array:
    return np.where(np.arange(x.shape[-1]) == x.shape[-1] - 1, -0.25, 1.0)


def _saddle(x: Array) -> Array:
    found: Array = (_saddle_signs(x) * x**2 / 2).sum(-1)
    return found


def _saddle_slope(x: Array) -> Array:
    found: Array = _saddle_signs(x) * x
    return found


def _huber(x: Array) -> Array:
    found: Array = np.where(np.abs(x) < 1, x**2 / 2, np.abs(x) - 0.5).sum(-1)
    return found


def _cliff(x: Array) -> Array:
    drop = CLIFF_HEIGHT / (1 + np.exp(np.clip(-x / CLIFF_WIDTH * 4, -500, 500)))
    found: Array = (PLATEAU_SLOPE * x + drop + np.where(x < -2, (x + 2) ** 2 / 2, 0.0)).sum(-1)
    return found


def _cliff_slope(x: Array) -> Array:
    share = 1 / (1 + np.exp(np.clip(-x / CLIFF_WIDTH * 4, -500, 500)))
    found: Array = PLATEAU_SLOPE + CLIFF_HEIGHT * 4 / CLIFF_WIDTH * share * (1 - share) + np.where(x < -2, x + 2, 0.0)
    return found


LANDSCAPES = {
    "rosenbrock": Landscape("rosenbrock", 4, _rosenbrock, _rosenbrock_slope, None, 0.0),
    "ripples": Landscape("ripples", 4, _ripples, _ripples_slope, 1 + RIPPLE, 0.0),
    "saddle": Landscape("saddle", 4, _saddle, _saddle_slope, 1.0, None),
    "huber": Landscape("huber", 4, _huber, lambda x: np.clip(x, -1.0, 1.0), 1.0, 0.0),
    "cliff": Landscape("cliff", 1, _cliff, _cliff_slope, 1 + 16 * CLIFF_HEIGHT / CLIFF_WIDTH**2 * 0.0962251, None),
}
"""By name, with the dimension in which they are used here."""
