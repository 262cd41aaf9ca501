"""Models for real training and the data that they learn: digits, or a book in windows of characters.

Each is an `nn.Sequential` of pieces, so that a pipeline can be cut between any two: a function of its name in
`networks`. torch is needed to build it, not to list it. Sources and licences of the data:
`lockstep/learn/methods/data/SOURCES.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from lockstep.base.errors import UnknownName
from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Array, Ints
from lockstep.learn.methods import data

if TYPE_CHECKING:
    from torch import nn


TEST_EVERY = 5
WINDOW = 32


@dataclass(frozen=True, slots=True)
class Data:
    """Samples to train on and, every fifth of the file, to test on; `classes` counts the kinds of targets."""

    inputs: Array
    targets: Ints
    test_inputs: Array
    test_targets: Ints
    classes: int


def digits() -> Data:
    """Inputs (samples, 64) from 0 to 1, targets (samples,) from 0 to 9."""
    return _split(*data.digits())


def characters() -> Data:
    """Inputs and targets (windows, 32) of character numbers, targets one character ahead."""
    text = data.alice()
    number = {letter: place for place, letter in enumerate(sorted(set(text)))}
    codes = np.array([number[letter] for letter in text], dtype=np.int64)
    windows = (len(codes) - 1) // WINDOW
    inputs, targets = (codes[start : windows * WINDOW + start].reshape(windows, WINDOW) for start in (0, 1))
    return _split(inputs, targets)


def _split(inputs: Array, targets: Ints) -> Data:
    testing = np.arange(len(inputs)) % TEST_EVERY == TEST_EVERY - 1
    classes = int(targets.max()) + 1
    return Data(inputs[~testing], targets[~testing], inputs[testing], targets[testing], classes)


@dataclass(frozen=True, slots=True)
class Model:
    """A model and the data it learns."""

    name: str
    summary: str
    data: Callable[[], Data]
    learning_rate: float
    """Default for the default optimizer: assumed, found by trying."""

    def build(self, layers: int, classes: int) -> nn.Sequential:
        """The model with torch's current random numbers as weights."""
        from lockstep.run.train import networks

        made: nn.Sequential = getattr(networks, self.name)(layers, classes)
        return made


MODELS: dict[str, Model] = {
    model.name: model
    for model in (
        Model("mlp", "residual MLP on digits", digits, 0.1),
        Model("cnn", "small CNN on digits", digits, 0.1),
        Model("gpt", "tiny GPT on the characters of a book", characters, 0.5),
        Model("moe", "MLP with a layer of experts on digits", digits, 0.1),
    )
}


def get_model(name: str, where: str | None = "--model") -> Model:
    """The model called `name`. Raises UnknownName."""
    if name not in MODELS:
        raise UnknownName("model", name, MODELS, where)
    return MODELS[name]


def split_linears(piece: object) -> dict[str, str]:
    """Submodules of a piece where tensor parallelism acts; empty where it does not.

    `column` and `row` are linear layers to split; behind `enter` lies a region where every rank computes its part.
    """
    found: dict[str, str] = getattr(piece, "SPLIT", {})
    return found
