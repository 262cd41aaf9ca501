"""Seconds of local SGD over the steps K between averages, and the best K.

    seconds(K) = N(K) (T + X / K)
    N(K) = N_1 (1 + c (K - 1)):   K* = sqrt((1 - c) X / (c T))       the least of seconds, where K* is above 1
N: steps to the target, N_1 with an average after every one; T computing of a step, X an exchange, c the penalty: more
steps per additional local step. At c = 1 the best K is 1, whatever X / T.

Source: derivative of seconds(K).
"""

from __future__ import annotations

import math
from typing import Any

Number = Any
"""A number, or an array of them."""


def run_s(steps: Number, period: Number, compute_s: Number, exchange_s: Number) -> Number:
    """Seconds of a run of `steps` with an exchange after every `period` of them; broadcasts."""
    return steps * (compute_s + exchange_s / period)


def best_period(penalty_frac: float, compute_s: float, exchange_s: float) -> float:
    """K* for a penalty c above 0, as a real number; below 1 it means 1."""
    return math.sqrt((1 - penalty_frac) * exchange_s / (penalty_frac * compute_s))


def penalty_frac(steps: float, every_step: float, period: int) -> float:
    """c of a run with that period above 1, which took `steps` where `every_step` were enough with K = 1."""
    return (steps / every_step - 1) / (period - 1)
