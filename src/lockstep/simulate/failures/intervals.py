"""Work between two checkpoints: Young's interval, Daly's, the exact one, and the best for any `Pattern`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Array
from lockstep.simulate.failures.expected import pattern_overhead_frac
from lockstep.simulate.failures.pattern import Pattern, floats

STEPS = 40
POINTS = 65
ROUNDS = 8
CYCLES = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128)


def young_s(write_s: ArrayLike, mtbf_s: ArrayLike) -> Array:
    """Young's interval, the first-order optimum: useful work between checkpoints, in seconds. Broadcasts.

        work = sqrt(2 delta M)      seconds of useful work between checkpoints
    delta: blocking seconds per checkpoint; M: mean time between failures. The first-order overhead is delta/work +
    work/2M, sqrt(2 delta / M) at its minimum. Right for delta << M only; there it is too long by delta / 3.

    Source: J. W. Young, "A first order approximation to the optimum checkpoint interval", CACM 17, 1974.
    """
    write, mtbf = floats(write_s, mtbf_s)
    return np.asarray(np.sqrt(2 * write * mtbf))


def first_order_overhead_frac(work_s: ArrayLike, write_s: ArrayLike, mtbf_s: ArrayLike) -> Array:
    """Young's overhead: writing plus half an interval lost per failure. Broadcasts."""
    work, write, mtbf = floats(work_s, write_s, mtbf_s)
    return np.asarray(write / work + work / (2 * mtbf))


def daly_s(write_s: ArrayLike, mtbf_s: ArrayLike) -> Array:
    """Daly's interval, the optimum to higher order: useful work between checkpoints, in seconds. Broadcasts.

        work = sqrt(2 delta M) (1 + sqrt(delta / 2M) / 3 + delta / 18M) - delta      for delta < 2M
             = M                                                                     otherwise
    delta: blocking seconds per checkpoint; M: mean time between failures. Restart and detection times do not move it.
    Without the last term of the bracket and the minus delta it would be Young's.

    Source: J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", Future
    Generation Computer Systems 22, 2006, equation 37.
    """
    write, mtbf = floats(write_s, mtbf_s)
    # Beyond delta = 2M the series is not used; capping the ratio keeps an infinite one out of it.
    ratio = np.minimum(write / (2 * mtbf), 1.0)
    series = young_s(write, mtbf) * (1 + np.sqrt(ratio) / 3 + ratio / 9) - write
    return np.where(write < 2 * mtbf, series, mtbf)


def exact_s(write_s: ArrayLike, mtbf_s: ArrayLike, hidden_frac: ArrayLike = 0.0) -> Array:
    """The exact interval for exponential failures: useful work of least expected time per work, in seconds. Broadcasts.

        time   E = (M + D) e^(R / M) (e^((work + delta) / M) - e^(f delta / M))
        work   M (1 + W0(-e^(-1 - (1 - f) delta / M))),  at least f delta (a write ends before the next one begins)
    M: mean time between failures; delta: seconds a checkpoint takes to write, a share f of it hidden behind work; R:
    restart, begun anew when a failure strikes it; D: detection, when a dead job cannot die again; W0: Lambert's
    function. For f = D = 0 the time is Daly's. What happens during a write is part of the model: the work done beside
    it is not in that checkpoint, so it is done again after a failure; a failure during a write falls back to the
    checkpoint before. R and D raise the cost and do not move the optimum, which sees only the blocking part of a write.

    Source: J. T. Daly, Future Generation Computer Systems 22, 2006, section 3 (complete cost function, f = D = 0);
    R. Corless et al., "On the Lambert W function", Advances in Computational Mathematics 5, 1996. f and D by the
    same argument: attempts of  work + (1 - f) delta  after a checkpoint, of  work + delta  after a failure, and
    (M + D) e^(R / M) - M  on average between a failure and the next attempt.
    """
    write, mtbf, hidden = floats(write_s, mtbf_s, hidden_frac)
    blocking = (1 - hidden) * write
    return np.asarray(np.maximum(mtbf * one_plus_lambert(blocking / mtbf), write - blocking))


def interval_time_s(
    work_s: ArrayLike, write_s: ArrayLike, mtbf_s: ArrayLike, *, hidden_frac: ArrayLike = 0.0,
    restart_s: ArrayLike = 0.0, detection_s: ArrayLike = 0.0,
) -> Array:  # fmt: skip
    """Expected seconds from one finished checkpoint to the next, E of `exact_s`. Broadcasts; may be infinite."""
    work, write, mtbf, hidden, restart, detection = floats(work_s, write_s, mtbf_s, hidden_frac, restart_s, detection_s)
    hidden = hidden * write
    with np.errstate(over="ignore"):
        attempts = np.exp(hidden / mtbf) * np.expm1((work + write - hidden) / mtbf)
        return np.asarray((mtbf + detection) * np.exp(restart / mtbf) * attempts)


def overhead_frac(
    work_s: ArrayLike, write_s: ArrayLike, mtbf_s: ArrayLike, *, hidden_frac: ArrayLike = 0.0,
    restart_s: ArrayLike = 0.0, detection_s: ArrayLike = 0.0,
) -> Array:  # fmt: skip
    """Expected time over useful work, minus 1: everything that is not useful work. Broadcasts."""
    time_s = interval_time_s(
        work_s, write_s, mtbf_s, hidden_frac=hidden_frac, restart_s=restart_s, detection_s=detection_s
    )
    return np.asarray(time_s / floats(work_s)[0] - 1)


def one_plus_lambert(ratio: ArrayLike) -> Array:
    """x = 1 + W0(-e^(-1 - ratio)) in [0, 1): the root of -ln(1 - x) - x = ratio, by Newton. Broadcasts.

    In y = -ln(1 - x) the equation is y - 1 + e^(-y) = ratio, convex and increasing: Newton from above cannot overshoot,
    and y <= ratio + 1 as well as y <= sqrt(2 ratio) + ratio start it above.
    """
    (ratio,) = floats(ratio)
    y = np.minimum(ratio + 1, np.sqrt(2 * ratio) + ratio)
    for _ in range(STEPS):
        slope = -np.expm1(-y)
        # y + expm1(-y) loses digits for small y, where the series y^2/2 - y^3/6 + ... does not.
        value = np.where(y < 1e-2, y**2 / 2 - y**3 / 6 + y**4 / 24 - y**5 / 120 + y**6 / 720, y - slope)
        y = np.where(slope > 0, y - (value - ratio) / np.where(slope > 0, slope, 1.0), y)
    return np.asarray(-np.expm1(-y))


@dataclass(frozen=True, slots=True)
class Optimum:
    """Best work between checkpoints, and what is lost there."""

    pattern: Pattern
    work_s: float
    overhead_frac: float


def optimum(pattern: Pattern, mtbf_s: float) -> Optimum:
    """The interval of least overhead. Raises BadInput when nothing says how long one should be.

    The expected time per work falls to one minimum and rises again: a logarithmic grid finds its neighbourhood and is
    drawn closer until it is a point. One checkpoint per cycle has the closed form of `exact_s` instead.
    """
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
