"""What numbers of few bits and compressed vectors lose: integrals of the normal law, and the additions of a program.

    tail(t) = P(|z| > t);   energy_above(t) = E[z^2; |z| > t] = tail(t) + 2 t phi(t)
    rounding_energy(p) = E (fl(z) - z)^2 = 4^(1 - p) / 12 sum over e of 4^e P(2^e <= |z| < 2^(e + 1))
phi: density; p: bits of a significand. The last one takes the error inside a step as uniform, which the density makes
right to second order in the step.

    E error^2 of a sum = sum over additions of  h^2 / 12 (1 + 2 / 4^k)  where k > 0,   h: spacing at the rounded sum
k: how many bits finer than h the finer of both sides is. A sum of two numbers of one octave has a single bit too
many, so its error is 0 or h / 2, which is 3/2 of what an even spread over a step gives; k <= 0 is exact. The bits cut
off are taken as even and independent. Depth and shape come from running the program on symbols; adding the zeros that
a server begins with is no addition.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from lockstep.lab.findings import Array
from lockstep.methods.number_format import NumberFormat
from lockstep.program import Program
from lockstep.program.executor import execute

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


MIX = np.uint64(0x9E3779B97F4A7C15)
"""An odd number without pattern: the golden ratio in 64 bits, as in splitmix64 (Steele, Lea, Flood 2014)."""


NOTHING = -1
"""Depth of the zeros that a server begins with."""


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """All of shape (rank, entry)."""

    depth: Array
    """Additions one after the other on the longest way to the entry."""
    signature: Array
    """Equal for equal trees, where a + b is b + a."""


def tree_of(program: Program, ranks: int, elems: int) -> Tree:
    """The additions behind every entry of `data`."""
    empty = program.ranks - ranks
    levels = [np.zeros(elems, np.int64)] * ranks + [np.full(elems, NOTHING)] * empty
    depth = np.array(execute(program, {"data": levels}, combine=_deeper)["data"][:ranks])
    leaves = [np.full(elems, rank + 1, np.uint64) * MIX for rank in range(ranks)]
    leaves += [np.zeros(elems, np.uint64)] * empty
    signature = np.array(execute(program, {"data": leaves}, combine=_mixed)["data"][:ranks])
    return Tree(np.maximum(depth, 0), signature)


def _deeper(first: Array, second: Array) -> Array:
    """One addition more than the deeper side, where there is something on both."""
    real = (first > NOTHING) & (second > NOTHING)
    return np.maximum(first, second) + real


def rounding_sum(chosen: NumberFormat) -> Callable[[Array, Array], Array]:
    """A sum of (value, energy) pairs: values rounded to the format, energies as above."""

    def add(first: Array, second: Array) -> Array:
        values = chosen.rounded(first[:, 0] + second[:, 0])
        step = chosen.spacing(values)
        finer = np.minimum(_finest(first[:, 0], chosen), _finest(second[:, 0], chosen))
        share = np.where(finer < step, (1 + 2 * (finer / step) ** 2) / 12, 0.0)
        return np.stack([values, first[:, 1] + second[:, 1] + share * step**2], axis=1)

    return add


def _finest(values: Array, chosen: NumberFormat) -> Array:
    """Spacing at the values; a zero has no bits that could be cut off."""
    return np.where(values == 0, np.inf, chosen.spacing(values))


def _mixed(first: Array, second: Array) -> Array:
    """A number for the sum that both orders of its sides share."""
    total = first + second
    mixed = (total ^ (total >> np.uint64(31))) * MIX
    return np.where((first == 0) | (second == 0), total, mixed ^ (mixed >> np.uint64(29)))
