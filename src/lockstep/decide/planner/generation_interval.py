"""The interval of a time of generation: quantiles of measured over predicted times of tokens at first sight.

    low = t exp(LOW),  high = t exp(HIGH)

t predicted seconds. The tables were asked before anything was changed for them (`check/validation/first_sight.toml`),
each weighing the same; a phase of generation adds what software does between steps and engines, which no table shows.
"""

from __future__ import annotations

from lockstep.decide.planner.interval import Interval

LEVEL_FRAC = 0.9
LOW, HIGH = -0.25, 1.12


def interval_of(seconds: float) -> Interval:
    """Where a time of generation is expected."""
    import math

    return Interval(seconds * math.exp(LOW), seconds * math.exp(HIGH), LEVEL_FRAC)
