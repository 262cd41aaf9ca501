"""Multinomial logistic regression with a quadratic penalty: convex, its optimum exact by Newton's method.

    f(W) = mean over samples of [ log sum_c exp(x . w_c) - x . w_y ] + (r / 2) |W|^2
    L <= (1 / 2) lambda_max(X'X / N) + r,   mu >= r
X samples with a constant 1 appended, r penalty. The 1/2 bounds the Hessian of the log-sum-exp (Boehning 1992).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from lockstep.lab.findings import Array
from lockstep.lab.objectives.objective import Objective

NEWTON_STEPS = 30


@dataclass(frozen=True, slots=True, eq=False)
class Logistic(Objective):
    """Inputs (samples, features) with the constant, classes from 0, penalty. Parameters: features x classes, flat.

    Inputs (trials, samples, features) with classes (trials, samples) are a data set of its own for every trial: loss
    and gradient take parameters (trials, dimension).
    """

    inputs: Array
    classes: Array
    num_classes: int
    penalty: float

    @property
    def dimension(self) -> int:
        return int(self.inputs.shape[-1] * self.num_classes)

    @property
    def smoothness(self) -> float:
        return 0.5 * float(np.linalg.eigvalsh(self.inputs.T @ self.inputs / len(self.inputs))[-1]) + self.penalty

    @property
    def strong_convexity(self) -> float:
        return self.penalty

    @property
    def lowest(self) -> float:
        return float(self.loss(self.optimum()))

    def part(self, places: Array) -> Logistic:
        """The same objective on some of the samples: a worker's shard or a mini-batch; (trials, batch): one each."""
        return Logistic(self.inputs[places], self.classes[places], self.num_classes, self.penalty)

    def loss(self, parameters: Array) -> Array:
        scores = self._scores(parameters)
        classes = np.broadcast_to(self.classes[..., None], (*scores.shape[:-1], 1))
        right = np.take_along_axis(scores, classes, -1)[..., 0]
        top = scores.max(-1)
        total = top + np.log(np.exp(scores - top[..., None]).sum(-1))
        found: Array = (total - right).mean(-1) + 0.5 * self.penalty * (parameters**2).sum(-1)
        return found

    def gradient(self, parameters: Array) -> Array:
        errors = _softmax(self._scores(parameters)) - (self.classes[..., None] == np.arange(self.num_classes))
        flat = (np.swapaxes(self.inputs, -1, -2) @ errors / self.inputs.shape[-2]).reshape(parameters.shape)
        found: Array = flat + self.penalty * parameters
        return found

    def accuracy_frac(self, parameters: Array) -> Array:
        """Share of the samples whose class has the highest score."""
        found: Array = (self._scores(parameters).argmax(-1) == self.classes).mean(-1)
        return found

    def optimum(self) -> Array:
        """The minimiser, to rounding: Newton steps with the exact Hessian."""
        parameters = np.zeros(self.dimension)
        for _ in range(NEWTON_STEPS):
            gradient = self.gradient(parameters)
            if np.abs(gradient).max() < 1e-12:
                break
            parameters = parameters - np.linalg.solve(self._hessian(parameters), gradient)
        return parameters

    def _scores(self, parameters: Array) -> Array:
        weights = parameters.reshape(*parameters.shape[:-1], self.inputs.shape[-1], self.num_classes)
        found: Array = self.inputs @ weights
        return found

    def _hessian(self, parameters: Array) -> Array:
        """(features x classes) squared, in the order of the flat parameters."""
        shares, samples = _softmax(self._scores(parameters)), self.inputs
        blocks = np.zeros((samples.shape[1], self.num_classes, samples.shape[1], self.num_classes))
        for one in range(self.num_classes):
            for other in range(one, self.num_classes):
                weight = shares[:, one] * ((one == other) - shares[:, other])
                blocks[:, one, :, other] = (samples * weight[:, None]).T @ samples / len(samples)
                blocks[:, other, :, one] = blocks[:, one, :, other].T
        flat: Array = blocks.reshape(self.dimension, self.dimension)
        return flat + self.penalty * np.eye(self.dimension)


def _softmax(scores: Array) -> Array:
    raised = np.exp(scores - scores.max(-1, keepdims=True))
    found: Array = raised / raised.sum(-1, keepdims=True)
    return found


@lru_cache(maxsize=4)
def digits_logistic(penalty: float = 0.01, side: int = 8) -> Logistic:
    """The handwritten digits; `side` 4 or 2 takes means of neighbouring pixels, for quicker experiments."""
    from lockstep.methods.data import digits

    pixels, classes = digits()
    block = 8 // side
    coarse = pixels.reshape(-1, side, block, side, block).mean((2, 4)).reshape(len(pixels), -1)
    return Logistic(np.hstack([coarse, np.ones((len(coarse), 1))]), classes, 10, penalty)
