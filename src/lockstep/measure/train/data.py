"""Data ready for training: digits for classifiers, a book in windows of characters for the GPT.

Sources and licences: `lockstep/methods/data/SOURCES.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lockstep.methods import data

TEST_EVERY = 5
WINDOW = 32


@dataclass(frozen=True, slots=True)
class Data:
    """Samples to train on and, every fifth of the file, to test on; `classes` counts the kinds of targets."""

    inputs: npt.NDArray[Any]
    targets: npt.NDArray[np.int64]
    test_inputs: npt.NDArray[Any]
    test_targets: npt.NDArray[np.int64]
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


def _split(inputs: npt.NDArray[Any], targets: npt.NDArray[np.int64]) -> Data:
    testing = np.arange(len(inputs)) % TEST_EVERY == TEST_EVERY - 1
    classes = int(targets.max()) + 1
    return Data(inputs[~testing], targets[~testing], inputs[testing], targets[testing], classes)
