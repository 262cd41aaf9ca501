"""Laws of random times: drawn, with exact mean, quantiles and expected order statistics.

The k-th smallest of n independent times, in expectation (k = n is the slowest of n: the cost of a barrier):

    exponential   mean * (H_n - H_{n-k})
    uniform       low + (high - low) k / (n + 1)
    pareto        minimum * G(n+1) G(n-k+1-1/shape) / (G(n-k+1) G(n+1-1/shape)),  infinite when (n-k+1) shape <= 1
    trace         exact sum over the sorted trace
    others        integral of q(z) k C(n,k) F(z)^(k-1) (1-F(z))^(n-k) f(z) over the standard normal z, to about 1e-12

Source: H. A. David and H. N. Nagaraja, Order Statistics, 3rd ed. 2003, sections 2.1, 3.1, 4.6.
"""

from __future__ import annotations

import csv
import io
import math
from abc import ABC, abstractmethod
from functools import lru_cache
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from lockstep.base.documents.files import read_text
from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.settings import LARGEST, SMALLEST
from lockstep.base.types.arrays import Array
from lockstep.base.units import parse_time_s

MOST_TERMS = 10_000
"""Of a continued fraction; a few hundred are needed for 100,000 workers."""
MOST_TRACE_B = 4 << 20
"""Bytes of a file of times that is read: some 200,000 times."""


class Law(ABC):
    """A distribution of times in seconds (or of factors, when used as such)."""

    if TYPE_CHECKING:  # at run time it would be a default of the dataclass field of the same name

        @property
        def mean_s(self) -> float:
            """Mean; infinite when the law has none."""

    @abstractmethod
    def quantile_s(self, fraction: float) -> float:
        """Time below which that fraction lies."""

    @abstractmethod
    def draw(self, generator: np.random.Generator, number: int) -> Array:
        """`number` independent times."""

    @abstractmethod
    def expected_order_s(self, k: int, n: int) -> float:
        """Expected k-th smallest of n independent times."""

    def expected_max_s(self, n: int) -> float:
        """Expected slowest of n independent times."""
        return self.expected_order_s(n, n)


@dataclass(frozen=True, slots=True)
class Constant(Law):
    """Always the same time."""

    value_s: float

    @property
    def mean_s(self) -> float:
        return self.value_s

    def quantile_s(self, fraction: float) -> float:
        return self.value_s

    def draw(self, generator: np.random.Generator, number: int) -> Array:
        return np.full(number, self.value_s)

    def expected_order_s(self, k: int, n: int) -> float:
        return self.value_s


@dataclass(frozen=True, slots=True)
class Normal(Law):
    """Normal law; its lower tail may be negative, which whoever uses it as a time cuts at 0."""

    mean_s: float
    std_s: float

    def quantile_s(self, fraction: float) -> float:
        return self.mean_s + self.std_s * NormalDist().inv_cdf(fraction)

    def draw(self, generator: np.random.Generator, number: int) -> Array:
        return generator.normal(self.mean_s, self.std_s, number)

    def expected_order_s(self, k: int, n: int) -> float:
        return self.mean_s + self.std_s * _normal_order(k, n, 0.0)


@dataclass(frozen=True, slots=True)
class LogNormal(Law):
    """exp of a normal; parameters are the mean and the coefficient of variation of the time itself."""

    mean_s: float
    cv: float

    @property
    def _sigma(self) -> float:
        return math.sqrt(math.log1p(self.cv**2))

    @property
    def _median_s(self) -> float:
        return self.mean_s / math.sqrt(1 + self.cv**2)

    def quantile_s(self, fraction: float) -> float:
        return self._median_s * math.exp(self._sigma * NormalDist().inv_cdf(fraction))

    def draw(self, generator: np.random.Generator, number: int) -> Array:
        return self._median_s * np.exp(self._sigma * generator.standard_normal(number))

    def expected_order_s(self, k: int, n: int) -> float:
        return self._median_s * (_normal_order(k, n, self._sigma) if self.cv else 1.0)


@dataclass(frozen=True, slots=True)
class Exponential(Law):
    """Memoryless."""

    mean_s: float

    def quantile_s(self, fraction: float) -> float:
        return -self.mean_s * math.log1p(-fraction)

    def draw(self, generator: np.random.Generator, number: int) -> Array:
        return generator.exponential(self.mean_s, number)

    def expected_order_s(self, k: int, n: int) -> float:
        return self.mean_s * math.fsum(1.0 / j for j in range(n - k + 1, n + 1))


@dataclass(frozen=True, slots=True)
class Uniform(Law):
    """Every time between low and high alike."""

    low_s: float
    high_s: float

    @property
    def mean_s(self) -> float:
        return (self.low_s + self.high_s) / 2

    def quantile_s(self, fraction: float) -> float:
        return self.low_s + (self.high_s - self.low_s) * fraction

    def draw(self, generator: np.random.Generator, number: int) -> Array:
        return generator.uniform(self.low_s, self.high_s, number)

    def expected_order_s(self, k: int, n: int) -> float:
        return self.low_s + (self.high_s - self.low_s) * k / (n + 1)


@dataclass(frozen=True, slots=True)
class Pareto(Law):
    """Heavy tail: P(time > t) = (minimum / t)^shape for t >= minimum. No mean for shape <= 1, no variance for <= 2."""

    minimum_s: float
    shape: float

    @property
    def mean_s(self) -> float:
        return self.minimum_s * self.shape / (self.shape - 1) if self.shape > 1 else math.inf

    def quantile_s(self, fraction: float) -> float:
        return float(self.minimum_s * (1 - fraction) ** (-1 / self.shape))

    def draw(self, generator: np.random.Generator, number: int) -> Array:
        return self.minimum_s * (1 + generator.pareto(self.shape, number))

    def expected_order_s(self, k: int, n: int) -> float:
        power = 1 / self.shape
        if n - k + 1 <= power:
            return math.inf
        logarithm = (
            math.lgamma(n + 1) + math.lgamma(n - k + 1 - power) - math.lgamma(n - k + 1) - math.lgamma(n + 1 - power)
        )
        return self.minimum_s * math.exp(logarithm)


@dataclass(frozen=True, slots=True)
class Empirical(Law):
    """Measured times, drawn with replacement."""

    times_s: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "times_s", tuple(sorted(self.times_s)))

    @property
    def mean_s(self) -> float:
        return math.fsum(self.times_s) / len(self.times_s)

    def quantile_s(self, fraction: float) -> float:
        return self.times_s[min(len(self.times_s) - 1, max(0, math.ceil(fraction * len(self.times_s)) - 1))]

    def draw(self, generator: np.random.Generator, number: int) -> Array:
        return np.array(self.times_s)[generator.integers(0, len(self.times_s), number)]

    def expected_order_s(self, k: int, n: int) -> float:
        # P(k-th smallest of n <= i-th of the trace) = P(at least k of n fall into the first i of m).
        m = len(self.times_s)
        below = at_least(k, n, np.arange(m + 1) / m)
        return math.fsum(np.diff(below) * np.array(self.times_s))

    @staticmethod
    def read(path: str | Path) -> Empirical:
        """Empirical from a CSV file: the column `time_s`, or the first column; times may carry units."""
        lines = csv.reader(io.StringIO(read_text(path, MOST_TRACE_B), newline=""))
        try:
            rows = [row for row in lines if row and row[0].strip()]
        except csv.Error as error:
            raise BadInput(f"is not a CSV file of times: {error}", f"{path}:{lines.line_num}") from None
        column = 0
        if rows and not _is_number(rows[0][0]):
            header = [name.strip() for name in rows[0]]
            column, rows = header.index("time_s") if "time_s" in header else 0, rows[1:]
        if not rows:
            raise BadInput("a trace of times needs at least one time", str(path))
        return Empirical(
            tuple(
                sized(parse_time_s(row[column] if column < len(row) else "", f"{path}: row {i}"), f"{path}: row {i}")
                for i, row in enumerate(rows, 1)
            )
        )


def _is_number(text: str) -> bool:
    try:
        parse_time_s(text)
    except BadInput:
        return False
    return True


def sized(value: float, where: str | None) -> float:
    """The value, when it is at most 0 or of a size that sums and products of many such keep finite. Raises BadInput."""
    if value > 0 and not SMALLEST <= value <= LARGEST:
        raise BadInput(f"must be 0 or from {SMALLEST:g} to {LARGEST:g}, got {value:g}", where)
    return value


def at_least(k: int, n: int, probability: Array | float) -> Array:
    """P(at least k of n independent trials succeed), for every probability of one trial.

    It is the incomplete beta function I_p(k, n - k + 1), by its continued fraction (DLMF 8.17.22, Lentz's method): a
    number of terms that grows with the root of n only, where the sum of the binomial law has n.
    """
    p = np.asarray(probability, dtype=float)
    found = np.array(p >= 1, dtype=float)
    inside = (p > 0) & (p < 1)
    a, b = float(k), float(n - k + 1)
    # The fraction converges fast below the mean; above it the other tail is computed.
    below = inside & (p < (a + 1) / (a + b + 2))
    above = inside & ~below
    found[below] = _beta_tail(a, b, p[below])
    found[above] = 1.0 - _beta_tail(b, a, 1.0 - p[above])
    return found


def _beta_tail(a: float, b: float, x: Array) -> Array:
    """I_x(a, b) for x below about its mean."""
    constant = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    with np.errstate(under="ignore"):
        front = np.exp(constant + a * np.log(x) + b * np.log1p(-x)) / a
    found = np.zeros_like(x)
    # Where the factor before the fraction is 0 in floats, so is the tail.
    live = front > 0
    found[live] = front[live] * _beta_fraction(a, b, x[live])
    return np.minimum(found, 1.0)


def _beta_fraction(a: float, b: float, x: Array) -> Array:
    """1 / (1 + d_1 / (1 + d_2 / (1 + ...))) of DLMF 8.17.22."""
    c = np.ones_like(x)
    d = 1.0 / (1.0 - (a + b) * x / (a + 1.0))
    value = d.copy()
    for m in range(1, MOST_TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d = 1.0 / (1.0 + even * d)
        c = 1.0 + even / c
        value *= c * d
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d = 1.0 / (1.0 + odd * d)
        c = 1.0 + odd / c
        value *= c * d
        if not len(x) or float(np.max(np.abs(c * d - 1.0))) < 4e-16:
            break
    return value


@lru_cache(maxsize=4096)
def _normal_order(k: int, n: int, sigma: float) -> float:
    """E of the k-th smallest of n standard normals z (sigma = 0), or of exp(sigma z): the trapezoid rule on 4,001
    points.
    """
    z = np.linspace(-14.0 - sigma, 14.0 + sigma, 4001)
    log_below = np.array([_log_normal_cdf(value) for value in z])
    log_above = log_below[::-1]
    constant = math.lgamma(n + 1) - math.lgamma(k) - math.lgamma(n - k + 1) - 0.5 * math.log(2 * math.pi)
    log_density = constant - z**2 / 2 + (k - 1) * log_below + (n - k) * log_above
    value = np.exp(log_density + sigma * z) if sigma else z * np.exp(log_density)
    return math.fsum(value) * float(z[1] - z[0])


def _log_normal_cdf(z: float) -> float:
    """log P(standard normal <= z), accurate in both tails."""
    if z > 5:
        return math.log1p(-0.5 * math.erfc(z / math.sqrt(2)))
    return math.log(0.5 * math.erfc(-z / math.sqrt(2)))
