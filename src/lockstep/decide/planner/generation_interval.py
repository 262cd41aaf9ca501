"""The interval of a time of generation: quantiles of measured over predicted times of tokens.

    low = t exp(LOW),  high = t exp(HIGH)

t predicted seconds. The 5th and 95th percentiles of ln(measured / predicted) of 1,629 and 565 published rows
(`check/validation/served.py`), each table weighing the same, on 2026-11-30. They are in sample: kernels and the host's
share were chosen beside these rows. A phase adds what software does between steps, which no table shows.
"""

from __future__ import annotations

import math

from lockstep.decide.planner.interval import Interval

LEVEL_FRAC = 0.9
LOW, HIGH = -0.41, 0.58


def interval_of(seconds: float) -> Interval:
    """Where a time of generation is expected."""
    return Interval(seconds * math.exp(LOW), seconds * math.exp(HIGH), LEVEL_FRAC)
