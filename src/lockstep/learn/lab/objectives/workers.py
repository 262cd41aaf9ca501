"""Workers with different data: worker i has f_i(x) = 1/2 sum_j h_ij (x_j - b_ij)^2, all together their mean.

    optimum of the mean   x_j = sum_i h_ij b_ij / sum_i h_ij
    heterogeneity         zeta^2 = mean over workers of |gradient f_i at the optimum|^2
    local fixed point     x_j = sum_i w_ij b_ij / sum_i w_ij,   w_ij = 1 - (1 - a h_ij)^K
The last is where K local gradient steps and averaging end: exact, and biased unless all h_i are equal or K = 1. The
bias depends on the shares of the kinds of workers, not on how many there are.

Turned in space, for methods that look at single coordinates (sign descent, top-k, Adam):
    f_i = x' H_i x / 2,   H_i = Q diag(l * u_i) Q'
Q: a random rotation; l: the spectrum, from 1 / condition to 1 in equal ratios; u_i: between 1/2 and 3/2, of mean 1
over the workers. All workers have the same minimum, so no gradient noise and no drift hides what a method does.

Samples are split over workers from equal to one-class shards: every class is dealt in shares drawn from a Dirichlet
law. A large concentration gives every worker the same mix, a small one gives each few classes.

Sources: the fixed point: one round maps x to the mean of b_i + (1 - a h_i)^K (x - b_i); solved for x. Shards: Hsu, Qi,
Brown, "Measuring the effects of non-identical data distribution", 2019, section 3.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Array
from lockstep.learn.lab.objectives.objective import Objective
from lockstep.learn.lab.objectives.quadratic import spectrum
from lockstep.learn.lab.statistics import streams


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


def dirichlet_shards(classes: Array, workers: int, concentration: float, seed: int) -> list[Array]:
    """Places of the samples of each worker, which together are all samples once; no worker is left without any."""
    generator = np.random.default_rng(seed)
    owner = np.empty(len(classes), dtype=int)
    for one in np.unique(classes):
        members = generator.permutation(np.flatnonzero(classes == one))
        shares = generator.dirichlet(np.full(workers, concentration))
        cuts = np.round(np.cumsum(shares) * len(members)).astype(int)
        owner[members] = np.searchsorted(cuts[:-1], np.arange(len(members)), side="right")
    for worker in range(workers):
        if not (owner == worker).any():
            largest = np.bincount(owner, minlength=workers).argmax()
            owner[np.flatnonzero(owner == largest)[0]] = worker
    return [np.flatnonzero(owner == worker) for worker in range(workers)]
