"""`Sample`: random outcomes with their mean, its 95 % confidence interval and quantiles.

`Progress`: what long computations tell whoever waits: (parts done, parts in all).
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Array
from lockstep.base.types.plain import Json
from lockstep.base.units import format_time


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Sample:
    """Independent outcomes in seconds, in the order they were drawn."""

    values_s: Array

    def __len__(self) -> int:
        return len(self.values_s)

    def __str__(self) -> str:
        low, high = (format_time(end) for end in self.interval_s())
        mean, tail = format_time(self.mean_s), format_time(self.quantile_s(0.99))
        return f"Sample: {len(self)} draws, mean {mean} (95 % interval {low} to {high}), 99th percentile {tail}"

    __repr__ = __str__

    @property
    def mean_s(self) -> float:
        """Mean."""
        return math.fsum(self.values_s) / len(self.values_s)

    @property
    def std_s(self) -> float:
        """Standard deviation of the population the sample comes from (n - 1); 0 for one value."""
        return float(np.std(self.values_s, ddof=1)) if len(self.values_s) > 1 else 0.0

    def quantile_s(self, fraction: float) -> float:
        """Value below which that fraction of the outcomes lies (linear between neighbours)."""
        return float(np.quantile(self.values_s, fraction))

    def interval_s(self, confidence: float = 0.95) -> tuple[float, float]:
        """Confidence interval of the mean: mean +- t * std / sqrt(n), Student t with n - 1 degrees of freedom.

        Of one value both ends are that value, which is right only when nothing is random: draw at least two. Source of
        t: Hill's expansion in 1 / (n - 1), error below 1e-3 from n = 6.
        """
        return mean_interval_s(self.mean_s, self.std_s, len(self.values_s), confidence)

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return {
            "draws": len(self),
            "mean_s": self.mean_s,
            "ci95_s": list(self.interval_s()),
            "p50_s": self.quantile_s(0.5),
            "p95_s": self.quantile_s(0.95),
            "p99_s": self.quantile_s(0.99),
        }


def student_t(probability: float, freedom: int) -> float:
    """Quantile of Student's t: exact for 1 and 2 degrees of freedom, else the Cornish-Fisher series.

    Source: Abramowitz and Stegun 26.7.5.
    """
    if freedom == 1:
        return math.tan(math.pi * (probability - 0.5))
    if freedom == 2:
        return (2 * probability - 1) / math.sqrt(2 * probability * (1 - probability))
    x = NormalDist().inv_cdf(probability)
    terms = (
        (x**3 + x) / 4,
        (5 * x**5 + 16 * x**3 + 3 * x) / 96,
        (3 * x**7 + 19 * x**5 + 17 * x**3 - 15 * x) / 384,
        (79 * x**9 + 776 * x**7 + 1482 * x**5 - 1920 * x**3 - 945 * x) / 92160,
    )
    return x + math.fsum(term / freedom**power for power, term in enumerate(terms, start=1))


def mean_interval_s(mean_s: float, std_s: float, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """The same from the mean and the deviation of n values."""
    half = student_t(0.5 + confidence / 2, n - 1) * std_s / math.sqrt(n) if n > 1 else 0.0
    return mean_s - half, mean_s + half


def unseen(done: int, total: int) -> None:
    """Ignores the progress."""
