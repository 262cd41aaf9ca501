"""How the learning rate follows the batch, and how it warms up.

    linear       rate = base rate * B / B_0            keeps the noise per unit of training time, rate^2 / (rate B)
    square root  rate = base rate * sqrt(B / B_0)      keeps the noise of one step, rate / sqrt(B)
    none         rate = base rate
    warm-up      rate_t = rate * (t + 1) / T  for t < T
Both growths hold while the rate stays far below the stability edge, 2 over the largest curvature; warm-up is for runs
whose curvature starts large and falls.

Sources: Goyal et al., "Accurate, large minibatch SGD", 2017 (linear rule, gradual warm-up); Krizhevsky, "One weird
trick", 2014, and Hoffer, Hubara, Soudry, "Train longer, generalize better", 2017 (square root).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from lockstep.base.errors import UnknownName
from lockstep.base.types.arrays import Array


def linear(base_rate: ArrayLike, batch_ratio: ArrayLike) -> Array:
    """Rate proportional to the batch. Broadcasts."""
    return np.asarray(np.multiply(base_rate, batch_ratio))


def square_root(base_rate: ArrayLike, batch_ratio: ArrayLike) -> Array:
    """Rate proportional to the square root of the batch. Broadcasts."""
    return np.asarray(np.multiply(base_rate, np.sqrt(batch_ratio)))


def unscaled(base_rate: ArrayLike, batch_ratio: ArrayLike) -> Array:
    """The same rate for every batch. Broadcasts."""
    return np.asarray(np.multiply(base_rate, np.ones_like(batch_ratio, dtype=np.float64)))


RULES: dict[str, Callable[[ArrayLike, ArrayLike], Array]] = {
    "linear": linear,
    "square-root": square_root,
    "none": unscaled,
}


def rule(name: str) -> Callable[[ArrayLike, ArrayLike], Array]:
    """The rule of that name: a function of (base rate, batch / base batch)."""
    if name not in RULES:
        raise UnknownName("rule for the learning rate", name, RULES)
    return RULES[name]


def warm_up_frac(step: ArrayLike, warm_up_steps: int) -> Array:
    """Share of the full rate at `step` (from 0): a straight line over the first `warm_up_steps`, then 1. Broadcasts."""
    return np.asarray(np.minimum(1.0, np.add(step, 1.0) / max(warm_up_steps, 1)))
