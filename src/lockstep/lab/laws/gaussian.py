"""Integrals of the standard normal law that compression and number formats meet.

    tail(t) = P(|z| > t);   energy_above(t) = E[z^2; |z| > t] = tail(t) + 2 t phi(t)
    rounding_energy(p) = E (fl(z) - z)^2 = 4^(1 - p) / 12 sum over e of 4^e P(2^e <= |z| < 2^(e + 1))
phi: density; p: bits of a significand. The last one takes the error inside a step as uniform, which the density makes
right to second order in the step.
"""

from __future__ import annotations

import math
from statistics import NormalDist

_NORMAL = NormalDist()
LEAST_OCTAVE, LAST_OCTAVE = -60, 6
"""Smaller and larger values of a standard normal have no share that a float64 would show."""


def tail(threshold: float) -> float:
    """P(|z| > threshold)."""
    return math.erfc(threshold / math.sqrt(2))


def threshold_of(tail_frac: float) -> float:
    """The threshold above which that share of |z| lies."""
    return -_NORMAL.inv_cdf(tail_frac / 2) if tail_frac < 1 else 0.0


def energy_above(threshold: float) -> float:
    """E[z^2; |z| > threshold]: the share of the squared length in the entries above it."""
    return tail(threshold) + 2 * threshold * _NORMAL.pdf(threshold)


def rounding_energy(precision_bits: int) -> float:
    """E (fl(z) - z)^2 for rounding to the nearest with that many bits of significand."""
    octaves = range(LEAST_OCTAVE, LAST_OCTAVE)
    return 4.0 ** (1 - precision_bits) / 12 * sum(4.0**e * (tail(2.0**e) - tail(2.0 ** (e + 1))) for e in octaves)
