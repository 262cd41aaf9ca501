"""How much more than the mean the busiest rank gets where experts are not equally popular and lie at random on ranks.

Popularities of the E experts of a layer are quantiles of a log-normal law of mean 1:

    p_e = exp(s z_e - s^2 / 2),    s^2 = log(1 + c^2),    z_e = the normal quantile of (e + 1/2) / E

with c, the standard deviation over the mean. A rank holds E / n of them, at random, as routers know nothing of ranks:

    busiest = E max over the n ranks of the mean of its p_e

the mean over PLACEMENTS drawn placements. Of one expert to a rank it is the largest popularity; of one rank, 1.

Source: A. W. Marshall et al., Inequalities, 2011, 17.E (maxima of sums that are drawn without replacement).
"""

from __future__ import annotations

import math
from functools import cache
from statistics import NormalDist

import numpy as np

from lockstep.base.types.arrays import Array

PLACEMENTS = 256


@cache
def popularities(experts: int, spread: float) -> Array:
    """Popularity over the mean of each expert [experts], least popular first."""
    width = math.sqrt(math.log1p(spread**2))
    score = np.array([NormalDist().inv_cdf((one + 0.5) / experts) for one in range(experts)])
    popular = np.exp(width * score)
    return np.asarray(popular / popular.mean())


def spread_of(experts: int, largest: float) -> float:
    """Standard deviation over the mean of popularities whose largest is `largest` times the mean: the inverse."""
    low, high = 0.0, 1e3
    for _ in range(100):
        middle = (low + high) / 2.0
        low, high = (middle, high) if float(popularities(experts, middle)[-1]) < largest else (low, middle)
    return high


@cache
def placed_frac(experts: int, ranks: int, spread: float) -> float:
    """Load of the busiest of `ranks` ranks over the mean, of experts that lie on them at random."""
    if ranks == 1 or not spread:
        return 1.0
    popular = popularities(experts, spread)
    if ranks == experts:
        return float(popular[-1])
    drawn = np.random.Generator(np.random.PCG64(0)).permuted(np.tile(popular, (PLACEMENTS, 1)), axis=1)
    return float(drawn.reshape(PLACEMENTS, ranks, -1).mean(axis=2).max(axis=1).mean())
