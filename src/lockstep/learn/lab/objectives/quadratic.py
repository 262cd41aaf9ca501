"""Quadratics: f(x) = 1/2 sum_j h_j (x_j - b_j)^2, with a spectrum of choice and noise of known size.

The axes are the eigenvectors. That is no restriction for methods that only add up gradients: turning the space turns
their path. (It is one for methods that look at single coordinates: sign descent, top-k, Adam.)

The noisy quadratic, with b = 0, is SGD whose expected loss is known at every step:
    gradient of one example: h_i w_i + sqrt(c_i) xi,  xi standard normal;   w <- (1 - alpha h) w - alpha sqrt(c / B) xi
    E w_i^2 after t steps = rho^t w_i(0)^2 + (1 - rho^t) v_i,   rho = (1 - alpha h_i)^2
    v_i = alpha c_i / (B h_i (2 - alpha h_i))                    stationary variance, for alpha h_i < 2
h: curvatures; c: variance of the gradient of one example along each axis; B: examples per step; alpha: learning rate.

Least squares with fewer equations than unknowns, X theta = y, end at the solution that is nearest to the start:
    theta = start + D X' (X D X')^-1 (y - X start)        least sum (theta_i - start_i)^2 / D_i
X: n equations in d >= n unknowns, of full rank; D: the preconditioner of the method that walks there.

Source of the noisy quadratic: Zhang et al., "Which algorithmic choices matter at which batch sizes? Insights from a
noisy quadratic model", 2019, section 3.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.errors import BadInput, UnknownName
from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Array
from lockstep.learn.lab.laws import stationary_variance
from lockstep.learn.lab.objectives.objective import Objective

SPECTRA = ("logarithmic", "linear", "two-valued")


def spectrum(kind: str, dimension: int, condition: float) -> Array:
    """`dimension` curvatures from 1 / condition to 1, evenly spaced on the scale that `kind` says."""
    if kind not in SPECTRA:
        raise UnknownName("spectrum", kind, SPECTRA)
    if dimension < 1 or not condition >= 1:
        raise BadInput(
            f"a spectrum needs a dimension and a condition number of 1 or more, got {dimension}, {condition}"
        )
    low = 1 / condition
    if kind == "logarithmic":
        return np.geomspace(low, 1, dimension)
    if kind == "linear":
        return np.linspace(low, 1, dimension)
    return np.where(np.arange(dimension) < dimension // 2, low, 1.0)


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


TIMES = np.concatenate([[0.0], np.geomspace(0.1, 1e7, 150)])
"""Steps between which a first passage is looked for."""
BISECTIONS = 40


@dataclass(frozen=True, slots=True, eq=False)
class NoisyQuadratic(Quadratic):
    """A quadratic whose gradients of single examples have a known variance along every axis, and a start."""

    noise: Array
    start: Array

    def floor(self, rate: Array | float, batch: Array | float) -> Array:
        """Expected loss after steps without end."""
        return np.asarray(0.5 * (self.curvatures * self._variance(rate, batch)).sum(axis=-1))

    def expected_loss(self, steps: Array | float, rate: Array | float, batch: Array | float) -> Array:
        """Expected loss after `steps` at a stable rate. Broadcasts."""
        kept = (1 - np.asarray(rate)[..., np.newaxis] * self.curvatures) ** 2
        kept = kept ** np.asarray(steps)[..., np.newaxis]
        squares = kept * (self.start - self.optimum) ** 2 + (1 - kept) * self._variance(rate, batch)
        return np.asarray(0.5 * (self.curvatures * squares).sum(axis=-1))

    def _variance(self, rate: Array | float, batch: Array | float) -> Array:
        """Stationary E w_i^2 per axis (last dimension)."""
        rate, batch = np.asarray(rate)[..., np.newaxis], np.asarray(batch)[..., np.newaxis]
        return stationary_variance(rate, self.curvatures, self.noise / batch)

    def steps_to(self, target: float, rate: Array, batch: float) -> Array:
        """First time at which the expected loss is `target`, for each rate, as a real number; infinite for never."""
        times = np.broadcast_to(TIMES, (rate.size, TIMES.size))
        reached = self.expected_loss(times, rate[:, np.newaxis], batch) <= target
        first = reached.argmax(axis=1)
        low, high = TIMES[np.maximum(first - 1, 0)], TIMES[first]
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            below = self.expected_loss(middle, rate, batch) <= target
            low, high = np.where(below, low, middle), np.where(below, middle, high)
        return np.where(reached.any(axis=1), high, np.inf)

    def fewest_steps(self, target: float, batch: float) -> tuple[float, float]:
        """(steps, rate) to `target` at the best constant rate; a fine search around the best of a coarse one."""
        rate = np.geomspace(1e-6, 1.99, 60) / self.smoothness
        for _ in range(4):
            steps = self.steps_to(target, rate, batch)
            best = int(steps.argmin())
            around = rate[max(best - 1, 0)], rate[min(best + 1, rate.size - 1)]
            found = float(steps[best]), float(rate[best])
            rate = np.linspace(*around, 12)
        return found

    def simulate(self, rate: float, batch: float, steps: int, trials: int, generator: np.random.Generator) -> Array:
        """Losses of `trials` runs after `steps` steps."""
        w = np.broadcast_to(self.start, (trials, self.dimension))
        for _ in range(steps):
            w = w - rate * (self.gradient(w) + generator.standard_normal(w.shape) * np.sqrt(self.noise / batch))
        return self.loss(w)

    def batch_gradients(self, w: Array, batch: float, draws: int, generator: np.random.Generator) -> Array:
        """Mean gradients of `draws` batches at `w`, shape (draws, axes)."""
        noise = generator.standard_normal((draws, w.size)) * np.sqrt(self.noise / batch)
        return np.asarray(self.gradient(w) + noise)


def power_law(axes: int, condition: float, noise: float) -> NoisyQuadratic:
    """Curvatures evenly spaced in logarithm from 1 / condition to 1, noise proportional to them, start at loss 1/2.

    Noise whose covariance is a multiple of the Hessian is what least squares has near its solution.
    """
    curvatures = spectrum("logarithmic", axes, condition)
    return NoisyQuadratic(curvatures, np.zeros(axes), noise * curvatures, 1 / np.sqrt(axes * curvatures))


def least_norm_solution(x: Array, y: Array, scale: Array, start: Array | float = 0.0) -> Array:
    """The nearest solution to `start` in the norm sum (theta_i - start_i)^2 / scale_i, shape (d,)."""
    origin = np.zeros(x.shape[1]) + start
    return np.asarray(origin + scale * (x.T @ np.linalg.solve((x * scale) @ x.T, y - x @ origin)))
