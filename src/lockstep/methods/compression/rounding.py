"""Rounding to whole numbers: to the nearest, or up with the probability that makes it unbiased.

    stochastic: floor(x) + 1 with probability x - floor(x)   E = x,  variance = f (1 - f),  f = x - floor(x)
The probability of a neighbour is its closeness, not its distance; whole numbers stay as they are.
"""

from __future__ import annotations

from numpy.random import Generator

from lockstep.errors import UnknownName
from lockstep.methods.arrays import Array, like, namespace

ROUNDINGS = ("stochastic", "nearest")


def check_rounding(rounding: str) -> None:
    """Raises `UnknownName` unless it is a way to round."""
    if rounding not in ROUNDINGS:
        raise UnknownName("rounding", rounding, ROUNDINGS, "rounding")


def rounded(values: Array, rounding: str, generator: Generator) -> Array:
    """Whole numbers, as numbers of the same kind; the nearest takes halves to even."""
    library = namespace(values)
    if rounding == "nearest":
        return library.round(values)
    below = library.floor(values)
    return below + like(like(generator.random(len(values)), values) < values - below, values)
