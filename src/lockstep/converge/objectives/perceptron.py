"""A small neural network: one hidden layer of tanh and a softmax over classes; not convex, nothing known but measured.

hidden = tanh(X W1 + b1),   scores = hidden W2 + b2,   loss = mean cross-entropy
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lockstep.converge.objectives.objective import Objective

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Perceptron(Objective):
    """Inputs (samples, features), classes from 0, width of the hidden layer. One parameter vector at a time."""

    inputs: Array
    classes: Array
    num_classes: int
    hidden: int

    @property
    def dimension(self) -> int:
        return int((self.inputs.shape[1] + 1) * self.hidden + (self.hidden + 1) * self.num_classes)

    def start(self, seed: int) -> Array:
        """Random parameters: normal, scaled by 1 / sqrt(inputs of the layer); no biases."""
        generator = np.random.default_rng(seed)
        features = self.inputs.shape[1]
        first = generator.standard_normal((features, self.hidden)) / np.sqrt(features)
        second = generator.standard_normal((self.hidden, self.num_classes)) / np.sqrt(self.hidden)
        parts = (first, np.zeros(self.hidden), second, np.zeros(self.num_classes))
        return np.concatenate([part.ravel() for part in parts])

    def part(self, places: Array) -> Perceptron:
        """The same network on some of the samples."""
        return Perceptron(self.inputs[places], self.classes[places], self.num_classes, self.hidden)

    def loss(self, parameters: Array) -> Array:
        _, scores = self._forward(parameters)
        top = scores.max(1)
        total = top + np.log(np.exp(scores - top[:, None]).sum(1))
        found: Array = (total - scores[np.arange(len(scores)), self.classes]).mean()
        return found

    def gradient(self, parameters: Array) -> Array:
        hidden, scores = self._forward(parameters)
        errors = np.exp(scores - scores.max(1, keepdims=True))
        errors /= errors.sum(1, keepdims=True)
        errors[np.arange(len(errors)), self.classes] -= 1
        errors /= len(errors)
        second = self.layers(parameters)[2]
        back = (errors @ second.T) * (1 - hidden**2)
        parts = (self.inputs.T @ back, back.sum(0), hidden.T @ errors, errors.sum(0))
        return np.concatenate([part.ravel() for part in parts])

    def accuracy_frac(self, parameters: Array) -> float:
        """Share of the samples whose class has the highest score."""
        return float((self._forward(parameters)[1].argmax(1) == self.classes).mean())

    def _forward(self, parameters: Array) -> tuple[Array, Array]:
        first, first_bias, second, second_bias = self.layers(parameters)
        hidden = np.tanh(self.inputs @ first + first_bias)
        return hidden, hidden @ second + second_bias

    def layers(self, parameters: Array) -> tuple[Array, Array, Array, Array]:
        """The parameter vector as weights and biases of both layers."""
        features, hidden, classes = self.inputs.shape[1], self.hidden, self.num_classes
        cuts = np.cumsum([features * hidden, hidden, hidden * classes])
        first, first_bias, second, second_bias = np.split(parameters, cuts)
        return first.reshape(features, hidden), first_bias, second.reshape(hidden, classes), second_bias


def digits_perceptron(hidden: int = 16, samples: int = 500) -> Perceptron:
    """A network on the first handwritten digits."""
    from lockstep.methods.data import digits

    pixels, classes = digits()
    return Perceptron(pixels[:samples], classes[:samples], 10, hidden)
