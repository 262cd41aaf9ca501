"""Draws that can be repeated, and what may be concluded from them: streams, noise, ratios, fitted hyperbolas.

Noise of gradients: laws about second moments (floors, stability, averages) do not ask for a shape, so the lab draws
two-point noise, plus or minus the standard deviation, from random bits: one byte gives eight numbers from a table, some
twenty times faster than normal ones.

    ratio       R = mean(a) / mean(b)      standard error = sqrt(var(a - R b) / n) / |mean(b)|      (delta method)
    hyperbola   log S = log S_min + log(1 + B_crit / B)
Averaging first and dividing once keeps the bias of order 1 / n; a mean of ratios has a bias that does not fall. The
hyperbola of steps against examples is fitted by least squares in the logarithms of S_min and B_crit (Gauss-Newton), so
errors are shares of the steps and both stay positive. Its intervals are those of the linearised fit: Student t with
n - 2 degrees of freedom, in logarithms.

Source of the ratio: Cochran, "Sampling techniques", 1977, section 6.3.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.random import PCG64, Generator, SeedSequence

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Array
from lockstep.learn.methods.critical_batch import steps as hyperbola
from lockstep.simulate.play.sample import student_t


def mean_and_error(values: Array) -> tuple[float, float]:
    """(mean, its standard error) of independent repetitions."""
    flat = np.asarray(values, dtype=np.float64).ravel()
    if flat.size < 2:
        return float(flat.mean()), 0.0
    return float(flat.mean()), float(flat.std(ddof=1)) / math.sqrt(flat.size)


def variance_and_error(values: Array) -> tuple[float, float]:
    """(variance, its standard error, from the fourth moment) of independent repetitions."""
    return float(values.var(ddof=1)), mean_and_error((values - values.mean()) ** 2)[1]


def quotient(over: tuple[float, float], under: tuple[float, float]) -> tuple[float, float]:
    """(value, its standard error) of one mean over another, each with its error and independent of the other."""
    value = over[0] / under[0]
    return value, abs(value) * math.hypot(over[1] / over[0], under[1] / under[0])


def share_error(share: float, count: int) -> float:
    """Standard error of a share that is counted among `count`, where `share` is the probability."""
    return math.sqrt(max(share * (1 - share), 0.0) / count)


def streams(seed: int, count: int) -> list[Generator]:
    """That many independent generators."""
    return [Generator(PCG64(child)) for child in SeedSequence(seed).spawn(count)]


_BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class SignNoise:
    """Draws of plus or minus `std` for arrays of one shape."""

    std: float
    shape: tuple[int, ...]
    generator: np.random.Generator
    table: Array
    buffer: Array

    @classmethod
    def of(cls, std: float, shape: tuple[int, ...], generator: np.random.Generator) -> SignNoise:
        """Noise for arrays of `shape`."""
        rows = -(-int(np.prod(shape)) // 8)
        return cls(std, shape, generator, std * (2.0 * _BITS - 1.0), np.empty((rows, 8)))

    def draw(self) -> Array:
        """New numbers, in an array that the next draw overwrites."""
        places = np.frombuffer(self.generator.bytes(len(self.buffer)), dtype=np.uint8)
        np.take(self.table, places, axis=0, out=self.buffer, mode="clip")
        return self.buffer.reshape(-1)[: int(np.prod(self.shape))].reshape(self.shape)


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


ROUNDS = 100


@dataclass(frozen=True, slots=True)
class Hyperbola:
    """Least steps and critical batch with their 95 % intervals, and the largest error of a point."""

    least_steps: float
    least_steps_ci95: tuple[float, float]
    critical_batch: float
    critical_batch_ci95: tuple[float, float]
    worst_frac: float

    @property
    def least_examples(self) -> float:
        """E_min."""
        return self.least_steps * self.critical_batch


def fit_hyperbola(batch: Array, steps: Array) -> Hyperbola:
    """The hyperbola through (batch, steps); needs 3 points at 2 batch sizes or more, all finite and positive."""
    batch, steps = np.asarray(batch, dtype=np.float64), np.asarray(steps, dtype=np.float64)
    if len(batch) < 3 or len(np.unique(batch)) < 2 or not (steps > 0).all() or not np.isfinite(steps).all():
        raise BadInput("needs at least 3 points at 2 batch sizes, all steps finite and positive")
    logs = np.log(steps)
    found = np.array([logs.min(), np.log(np.sqrt(batch.min() * batch.max()))])
    for _ in range(ROUNDS):
        slope, error = _linearised(found, batch, logs)
        change = np.clip(np.linalg.lstsq(slope, error, rcond=None)[0], -1, 1)
        found = found + change
        if np.abs(change).max() < 1e-12:
            break
    slope, error = _linearised(found, batch, logs)
    freedom = len(batch) - 2
    covariance = np.linalg.pinv(slope.T @ slope) * float(error @ error) / freedom
    half = student_t(0.975, freedom) * np.sqrt(np.diag(covariance))
    least, critical = (
        (math.exp(value), (math.exp(value - width), math.exp(value + width)))
        for value, width in zip(found.tolist(), half.tolist(), strict=True)
    )
    worst = float(np.abs(hyperbola(batch, least[0], critical[0]) / steps - 1).max())
    return Hyperbola(*least, *critical, worst_frac=worst)


def _linearised(found: Array, batch: Array, logs: Array) -> tuple[Array, Array]:
    """(derivatives by both logarithms, errors) of the model at `found`."""
    ratio = np.exp(found[1]) / batch
    slope = np.stack([np.ones_like(batch), ratio / (1 + ratio)], axis=1)
    return slope, logs - found[0] - np.log1p(ratio)
