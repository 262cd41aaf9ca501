"""How much an old gradient counts: factors on the step, from its delay in updates. Numbers or arrays alike.

    inverse          1 / (1 + tau)
    exponential      exp(-r tau)
    delay-adaptive   min(1, limit / (a L (1 + tau)))
    cut-off          1 up to the oldest that counts, else 0
tau updates between the read of the parameters and the write of the gradient, a step size, L largest curvature.
With `inverse` one step below a L = pi / 2 is stable at every constant delay; `delay-adaptive` only shrinks the steps
that are too old for their size, so that one very late worker does not slow all others.

Sources: W. Zhang, S. Gupta, X. Lian, J. Liu, "Staleness-aware async-SGD", IJCAI 2016 (inverse); A. Koloskova, S. Stich,
M. Jaggi, NeurIPS 2022, and K. Mishchenko, F. Bach, M. Even, B. Woodworth, NeurIPS 2022 (steps that adapt to the delay).
"""

from __future__ import annotations

import math
from typing import Any

Numbers = Any
"""A number, a numpy array or a torch tensor."""


def inverse(delay: Numbers) -> Numbers:
    """1 / (1 + delay)."""
    return 1.0 / (1.0 + delay)


def exponential(delay: Numbers, rate: float) -> Numbers:
    """exp(-rate * delay); a rate of 0 is no weighting."""
    return math.exp(-rate) ** delay


def delay_adaptive(delay: Numbers, step_size: float, smoothness: float, limit: float = 1.0) -> Numbers:
    """min(1, limit / (step_size * smoothness * (1 + delay)))."""
    bound = limit / (step_size * smoothness * (1.0 + delay))
    # min(bound, 1) by operators that numbers, numpy and torch share.
    return (bound + 1.0 - abs(bound - 1.0)) / 2.0


def cut_off(delay: Numbers, oldest: float) -> Numbers:
    """1 for a delay of at most `oldest`, else 0."""
    return 1.0 * (delay <= oldest)
