"""Classifiers: multinomial logistic regression, and a small network whose last layer is one.

    logistic     f(W) = mean over samples of [ log sum_c exp(x . w_c) - x . w_y ] + (r / 2) |W|^2
                 L <= (1 / 2) lambda_max(X'X / N) + r,   mu >= r
    perceptron   hidden = tanh(X W1 + b1),   scores = hidden W2 + b2,   loss = mean cross-entropy
X samples, for the logistic regression with a constant 1 appended; r penalty. The 1/2 bounds the Hessian of the
log-sum-exp (Boehning 1992). The regression is convex, its optimum exact by Newton's method; of the network, one hidden
layer of tanh and a softmax over classes, nothing is known but measured.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import lru_cache

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Array
from lockstep.learn.lab.objectives.objective import Objective

NEWTON_STEPS = 30


@dataclass(frozen=True, slots=True, eq=False)
class Classifier(Objective):
    """Inputs (samples, features), classes from 0, and how many there are.

    Inputs (trials, samples, features) with classes (trials, samples) are a data set of its own for every trial: loss
    and gradient take parameters (trials, dimension).
    """

    inputs: Array
    classes: Array
    num_classes: int

    @abstractmethod
    def scores(self, parameters: Array) -> Array:
        """Score of every class for every sample, (..., samples, classes)."""

    def cross_entropy(self, parameters: Array) -> Array:
        """Mean over the samples of [ log sum_c exp(score of c) - score of the right class ]."""
        scores = self.scores(parameters)
        classes = np.broadcast_to(self.classes[..., None], (*scores.shape[:-1], 1))
        right = np.take_along_axis(scores, classes, -1)[..., 0]
        top = scores.max(-1)
        total = top + np.log(np.exp(scores - top[..., None]).sum(-1))
        found: Array = (total - right).mean(-1)
        return found

    def errors(self, scores: Array) -> Array:
        """Slope of every sample's cross-entropy by its scores."""
        found: Array = _softmax(scores) - (self.classes[..., None] == np.arange(self.num_classes))
        return found

    def accuracy_frac(self, parameters: Array) -> Array:
        """Share of the samples whose class has the highest score."""
        found: Array = (self.scores(parameters).argmax(-1) == self.classes).mean(-1)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Logistic(Classifier):
    """Inputs have the constant 1 as last feature. Parameters: features x classes, flat."""

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
        found: Array = self.cross_entropy(parameters) + 0.5 * self.penalty * (parameters**2).sum(-1)
        return found

    def gradient(self, parameters: Array) -> Array:
        errors = self.errors(self.scores(parameters))
        flat = (np.swapaxes(self.inputs, -1, -2) @ errors / self.inputs.shape[-2]).reshape(parameters.shape)
        found: Array = flat + self.penalty * parameters
        return found

    def optimum(self) -> Array:
        """The minimizer, to rounding: Newton steps with the exact Hessian."""
        parameters = np.zeros(self.dimension)
        for _ in range(NEWTON_STEPS):
            gradient = self.gradient(parameters)
            if np.abs(gradient).max() < 1e-12:
                break
            parameters = parameters - np.linalg.solve(self._hessian(parameters), gradient)
        return parameters

    def scores(self, parameters: Array) -> Array:
        weights = parameters.reshape(*parameters.shape[:-1], self.inputs.shape[-1], self.num_classes)
        found: Array = self.inputs @ weights
        return found

    def _hessian(self, parameters: Array) -> Array:
        """(features x classes) squared, in the order of the flat parameters."""
        shares, samples = _softmax(self.scores(parameters)), self.inputs
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
    from lockstep.learn.methods.data import digits

    pixels, classes = digits()
    block = 8 // side
    coarse = pixels.reshape(-1, side, block, side, block).mean((2, 4)).reshape(len(pixels), -1)
    return Logistic(np.hstack([coarse, np.ones((len(coarse), 1))]), classes, 10, penalty)


@dataclass(frozen=True, slots=True, eq=False)
class Perceptron(Classifier):
    """`hidden`: width of the hidden layer."""

    hidden: int

    @property
    def dimension(self) -> int:
        return int((self.inputs.shape[-1] + 1) * self.hidden + (self.hidden + 1) * self.num_classes)

    def start(self, seed: int) -> Array:
        """Random parameters: normal, scaled by 1 / sqrt(inputs of the layer); no biases."""
        generator = np.random.default_rng(seed)
        features = self.inputs.shape[-1]
        first = generator.standard_normal((features, self.hidden)) / np.sqrt(features)
        second = generator.standard_normal((self.hidden, self.num_classes)) / np.sqrt(self.hidden)
        parts = (first, np.zeros(self.hidden), second, np.zeros(self.num_classes))
        return np.concatenate([part.ravel() for part in parts])

    def part(self, places: Array) -> Perceptron:
        """The same network on some of the samples; (trials, batch): on some of its own for every trial."""
        return Perceptron(self.inputs[places], self.classes[places], self.num_classes, self.hidden)

    def loss(self, parameters: Array) -> Array:
        return self.cross_entropy(parameters)

    def gradient(self, parameters: Array) -> Array:
        hidden, scores = self._forward(parameters)
        errors = self.errors(scores) / scores.shape[-2]
        back = self._backward(parameters, hidden, errors)
        parts = (np.swapaxes(self.inputs, -1, -2) @ back, np.swapaxes(hidden, -1, -2) @ errors)
        flat = [part.reshape(*parameters.shape[:-1], -1) for part in parts]
        return np.concatenate([flat[0], back.sum(-2), flat[1], errors.sum(-2)], axis=-1)

    def squared_norms(self, parameters: Array) -> Array:
        """|gradient|^2 of each sample alone, (..., samples): a layer's is an outer product, so its norms multiply."""
        hidden, scores = self._forward(parameters)
        errors = self.errors(scores)
        back = self._backward(parameters, hidden, errors)
        first = (back**2).sum(-1) * (1 + (self.inputs**2).sum(-1))
        return np.asarray(first + (errors**2).sum(-1) * (1 + (hidden**2).sum(-1)))

    def _backward(self, parameters: Array, hidden: Array, errors: Array) -> Array:
        """Derivatives by the inputs of the hidden units, from those by the scores."""
        second = self.layers(parameters)[2]
        return np.asarray((errors @ np.swapaxes(second, -1, -2)) * (1 - hidden**2))

    def scores(self, parameters: Array) -> Array:
        return self._forward(parameters)[1]

    def _forward(self, parameters: Array) -> tuple[Array, Array]:
        first, first_bias, second, second_bias = self.layers(parameters)
        hidden = np.tanh(self.inputs @ first + first_bias[..., None, :])
        return hidden, hidden @ second + second_bias[..., None, :]

    def layers(self, parameters: Array) -> tuple[Array, Array, Array, Array]:
        """The parameter vector as weights and biases of both layers."""
        features, hidden, classes = self.inputs.shape[-1], self.hidden, self.num_classes
        lead, inside, late = parameters.shape[:-1], features * hidden, (features + 1) * hidden
        first = parameters[..., :inside].reshape(*lead, features, hidden)
        second = parameters[..., late : late + hidden * classes].reshape(*lead, hidden, classes)
        return first, parameters[..., inside:late], second, parameters[..., late + hidden * classes :]


def digits_perceptron(hidden: int = 16, samples: int = 500) -> Perceptron:
    """A network on the first handwritten digits."""
    from lockstep.learn.methods.data import digits

    pixels, classes = digits()
    return Perceptron(pixels[:samples], classes[:samples], 10, hidden)
