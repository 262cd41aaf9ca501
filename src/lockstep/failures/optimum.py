"""The interval with the least expected time for any `Pattern`, and the overhead around it.

The expected time per work falls to one minimum and rises again: a logarithmic grid finds its neighbourhood and is drawn
closer until it is a point. One checkpoint per cycle has the closed form of `exact` instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lockstep.errors import BadInput
from lockstep.failures.exact import exact_s
from lockstep.failures.expected import pattern_overhead_frac
from lockstep.failures.pattern import Pattern

POINTS = 65
ROUNDS = 8
CYCLES = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128)


@dataclass(frozen=True, slots=True)
class Optimum:
    """Best work between checkpoints, and what is lost there."""

    pattern: Pattern
    work_s: float
    overhead_frac: float


def optimum(pattern: Pattern, mtbf_s: float) -> Optimum:
    """The interval of least overhead. Raises BadInput when nothing says how long one should be."""
    if not mtbf_s > 0:
        raise BadInput(f"the time between failures must be above 0, got {mtbf_s}", "mtbf")
    if math.isinf(mtbf_s) or not any(pattern.costs_s):
        raise BadInput("checkpoints that cost nothing, or without failures, have no best interval", "write")
    if pattern.is_single:
        work_s = float(exact_s(pattern.costs_s[0], mtbf_s, pattern.hidden_frac))
        if work_s == 0:
            raise BadInput("a write that is fully hidden and takes no time has no best interval", "async")
    else:
        work_s = least(lambda work: pattern_overhead_frac(pattern, work, mtbf_s), pattern.shortest_work_s, mtbf_s)
    return Optimum(pattern, work_s, float(pattern_overhead_frac(pattern, work_s, mtbf_s)))


def best_cycle(make: Callable[[int], Pattern], mtbf_s: float) -> Optimum:
    """The best of the patterns `make(every)` for the lengths in CYCLES; ties go to the shorter cycle."""
    found = [optimum(make(every), mtbf_s) for every in CYCLES]
    return min(found, key=lambda one: one.overhead_frac)


def least(overhead_frac: Callable[[Any], Any], shortest_s: float, mtbf_s: float, points: int = POINTS) -> float:
    """Work between checkpoints with the least `overhead_frac`, by a grid that shrinks around its best point."""
    longest = max(2 * mtbf_s, shortest_s)
    shortest = max(shortest_s, 1e-9 * longest)
    low, high = math.log(shortest), math.log(longest)
    for _ in range(ROUNDS):
        grid = np.linspace(low, high, points)
        best = int(np.argmin(overhead_frac(np.exp(grid))))
        low, high = float(grid[max(best - 1, 0)]), float(grid[min(best + 1, points - 1)])
    return math.exp((low + high) / 2) if low > math.log(shortest) else shortest
