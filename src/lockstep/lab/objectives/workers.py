"""Workers with different data: worker i has f_i(x) = 1/2 sum_j h_ij (x_j - b_ij)^2, all together their mean.

    optimum of the mean   x_j = sum_i h_ij b_ij / sum_i h_ij
    heterogeneity         zeta^2 = mean over workers of |gradient f_i at the optimum|^2
    local fixed point     x_j = sum_i w_ij b_ij / sum_i w_ij,   w_ij = 1 - (1 - a h_ij)^K
The last is where K local gradient steps and averaging end: exact, and biased unless all h_i are equal or K = 1. The
bias depends on the shares of the kinds of workers, not on how many there are.

Source of the fixed point: one round maps x to the mean of b_i + (1 - a h_i)^K (x - b_i); solved for x.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lockstep.lab.findings import Array
from lockstep.lab.objectives.objective import Objective
from lockstep.lab.objectives.quadratic import spectrum


@dataclass(frozen=True, slots=True, eq=False)
class WorkerQuadratics(Objective):
    """Curvatures and optima of shape (workers, dimension). `loss` and `gradient` are those of the mean."""

    curvatures: Array
    optima: Array

    @property
    def dimension(self) -> int:
        return int(self.curvatures.shape[1])

    @property
    def workers(self) -> int:
        """Number of workers."""
        return int(self.curvatures.shape[0])

    @property
    def optimum(self) -> Array:
        """Of the mean."""
        found: Array = (self.curvatures * self.optima).sum(0) / self.curvatures.sum(0)
        return found

    @property
    def smoothness(self) -> float:
        return float(self.curvatures.mean(0).max())

    @property
    def strong_convexity(self) -> float:
        return float(self.curvatures.mean(0).min())

    @property
    def lowest(self) -> float:
        return float(self.loss(self.optimum))

    @property
    def heterogeneity(self) -> float:
        """zeta: root of the mean squared length of the workers' gradients at the common optimum."""
        gradients = self.worker_gradients(np.broadcast_to(self.optimum, self.optima.shape))
        return float(np.sqrt((gradients**2).sum(-1).mean()))

    def loss(self, parameters: Array) -> Array:
        away = parameters[..., None, :] - self.optima
        found: Array = 0.5 * (self.curvatures * away * away).sum(-1).mean(-1)
        return found

    def gradient(self, parameters: Array) -> Array:
        found: Array = self.worker_gradients(parameters[..., None, :]).mean(-2)
        return found

    def worker_gradients(self, parameters: Array) -> Array:
        """Gradient of every worker at its own row of `parameters` (..., workers, dimension)."""
        found: Array = self.curvatures * (parameters - self.optima)
        return found

    def local_fixed_point(self, step_size: float, local_steps: int) -> Array:
        """Where rounds of `local_steps` gradient steps and averaging end."""
        weights = 1 - (1 - step_size * self.curvatures) ** local_steps
        found: Array = (weights * self.optima).sum(0) / weights.sum(0)
        return found


def unequal_workers(
    workers: int, dimension: int, *, condition: float, shift: float, curvature_spread: float, seed: int
) -> WorkerQuadratics:
    """Workers around one quadratic, as different as the two numbers say.

    `shift`: standard deviation of the optima. `curvature_spread`: curvatures are those of the common spectrum times
    exp(spread * normal). 0 and 0 are equal workers.
    """
    generator = np.random.default_rng(seed)
    common = spectrum("logarithmic", dimension, condition)
    factors = np.exp(curvature_spread * generator.standard_normal((workers, dimension)))
    return WorkerQuadratics(common * factors, shift * generator.standard_normal((workers, dimension)))
