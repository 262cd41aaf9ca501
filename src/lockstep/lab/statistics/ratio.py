"""A ratio of two means with its interval.

    R = mean(a) / mean(b)      standard error = sqrt(var(a - R b) / n) / |mean(b)|      (delta method)
Averaging first and dividing once keeps the bias of order 1 / n; a mean of ratios has a bias that does not fall.

Source: Cochran, "Sampling techniques", 1977, section 6.3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from lockstep.lab.findings import Array
from lockstep.simulate.sample import student_t

KNOWN = 8.0
"""Standard errors from 0 at which the delta method holds to a few per cent."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """Value, standard error, and from how many pairs."""

    value: float
    standard_error: float
    pairs: int
    known: bool = True
    """Whether the mean below is so far from 0 that the interval means what it says."""

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Confidence interval; Student t with pairs - 1 degrees of freedom."""
        half = student_t(0.5 + confidence / 2, self.pairs - 1) * self.standard_error
        return self.value - half, self.value + half


def ratio_of_means(over: Array, under: Array) -> Ratio:
    """mean(over) / mean(under) of equally many paired values, at least 2."""
    value = float(over.mean() / under.mean())
    spread = float(np.std(over - value * under, ddof=1))
    below, error = abs(float(under.mean())), float(np.std(under, ddof=1)) / math.sqrt(over.size)
    return Ratio(value, spread / math.sqrt(over.size) / below, over.size, below > KNOWN * error)
