"""A small neural network: one hidden layer of tanh and a softmax over classes; not convex, nothing known but measured.

hidden = tanh(X W1 + b1),   scores = hidden W2 + b2,   loss = mean cross-entropy
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lockstep.lab.findings import Array
from lockstep.lab.objectives.objective import Objective


@dataclass(frozen=True, slots=True, eq=False)
class Perceptron(Objective):
    """Inputs (samples, features), classes from 0, width of the hidden layer.

    Inputs (trials, samples, features) with classes (trials, samples) are a data set of its own for every trial.
    """

    inputs: Array
    classes: Array
    num_classes: int
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
        scores = self._forward(parameters)[1]
        top = scores.max(-1)
        total = top + np.log(np.exp(scores - top[..., None]).sum(-1))
        classes = np.broadcast_to(self.classes[..., None], (*scores.shape[:-1], 1))
        found: Array = (total - np.take_along_axis(scores, classes, -1)[..., 0]).mean(-1)
        return found

    def gradient(self, parameters: Array) -> Array:
        hidden, scores = self._forward(parameters)
        errors = np.exp(scores - scores.max(-1, keepdims=True))
        errors /= errors.sum(-1, keepdims=True)
        errors -= self.classes[..., None] == np.arange(self.num_classes)
        errors /= errors.shape[-2]
        second = self.layers(parameters)[2]
        back = (errors @ np.swapaxes(second, -1, -2)) * (1 - hidden**2)
        parts = (np.swapaxes(self.inputs, -1, -2) @ back, np.swapaxes(hidden, -1, -2) @ errors)
        flat = [part.reshape(*parameters.shape[:-1], -1) for part in parts]
        return np.concatenate([flat[0], back.sum(-2), flat[1], errors.sum(-2)], axis=-1)

    def accuracy_frac(self, parameters: Array) -> Array:
        """Share of the samples whose class has the highest score."""
        found: Array = (self._forward(parameters)[1].argmax(-1) == self.classes).mean(-1)
        return found

    def _forward(self, parameters: Array) -> tuple[Array, Array]:
        first, first_bias, second, second_bias = self.layers(parameters)
        hidden = np.tanh(self.inputs @ first + first_bias[..., None, :])
        return hidden, hidden @ second + second_bias[..., None, :]

    def layers(self, parameters: Array) -> tuple[Array, Array, Array, Array]:
        """The parameter vector as weights and biases of both layers."""
        features, hidden, classes = self.inputs.shape[-1], self.hidden, self.num_classes
        cuts = np.cumsum([features * hidden, hidden, hidden * classes])
        first, first_bias, second, second_bias = np.split(parameters, cuts, axis=-1)
        lead = parameters.shape[:-1]
        first, second = first.reshape(*lead, features, hidden), second.reshape(*lead, hidden, classes)
        return first, first_bias, second, second_bias


def digits_perceptron(hidden: int = 16, samples: int = 500) -> Perceptron:
    """A network on the first handwritten digits."""
    from lockstep.methods.data import digits

    pixels, classes = digits()
    return Perceptron(pixels[:samples], classes[:samples], 10, hidden)
