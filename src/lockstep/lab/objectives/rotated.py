"""Workers' quadratics turned in space, for methods that look at single coordinates: sign descent, top-k, Adam.

    f_i = x' H_i x / 2,   H_i = Q diag(l * u_i) Q'
Q: a random rotation; l: the spectrum, from 1 / condition to 1 in equal ratios; u_i: between 1/2 and 3/2, of mean 1
over the workers. All workers have the same minimum, so no gradient noise and no drift hides what a method does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lockstep.lab.findings import Array
from lockstep.lab.objectives.objective import Objective
from lockstep.lab.objectives.quadratic import spectrum
from lockstep.lab.objectives.workers import WorkerQuadratics
from lockstep.lab.statistics.draws import streams


@dataclass(frozen=True, slots=True, eq=False)
class Rotated(Objective):
    """`inner` seen through a rotation: parameters are Q times those of `inner`."""

    inner: WorkerQuadratics
    rotation: Array
    """Q, orthogonal, of shape (dimension, dimension)."""

    @property
    def dimension(self) -> int:
        return self.inner.dimension

    @property
    def workers(self) -> int:
        """Number of workers."""
        return self.inner.workers

    @property
    def smoothness(self) -> float:
        return self.inner.smoothness

    @property
    def strong_convexity(self) -> float:
        return self.inner.strong_convexity

    @property
    def lowest(self) -> float:
        return self.inner.lowest

    def loss(self, parameters: Array) -> Array:
        return self.inner.loss(parameters @ self.rotation)

    def gradient(self, parameters: Array) -> Array:
        found: Array = self.inner.gradient(parameters @ self.rotation) @ self.rotation.T
        return found

    def worker_gradients(self, parameters: Array) -> Array:
        """Gradient of every worker at its own row of `parameters` (..., workers, dimension)."""
        found: Array = self.inner.worker_gradients(parameters @ self.rotation) @ self.rotation.T
        return found


def rotated_workers(workers: int, dimension: int, condition: float, seed: int) -> tuple[Rotated, Array]:
    """Such workers, and a start that has the same loss in every direction."""
    (draw,) = streams(seed, 1)
    rotation = np.linalg.qr(draw.standard_normal((dimension, dimension)))[0]
    common = spectrum("logarithmic", dimension, condition)
    shares = draw.uniform(0.5, 1.5, (workers, dimension))
    shares /= shares.mean(axis=0)
    inner = WorkerQuadratics(shares * common, np.zeros((workers, dimension)))
    return Rotated(inner, rotation), rotation @ (np.sign(draw.standard_normal(dimension)) / np.sqrt(common))
