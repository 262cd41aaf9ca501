"""Exact expected time of a run under a `Pattern` and exponential failures, by recursion over the positions of a cycle.

    U_j   time to the end of the cycle from a checkpoint just written, V_j the same from a finished restart, F_j from a
          failure, X_j from a noticed failure that can restart at j, Y from one that falls back to the cycle's begin
    U_j = M (1 - a) + a U_(j+1) + (1 - a) F_j       a = e^(-(work + delta_j - f delta_(j-1)) / M)
    V_j = M (1 - b) + b U_(j+1) + (1 - b) F_j       b = e^(-(work + delta_j) / M)
    F_j = D + (1 - h) X_j + h Y
    X_j = M (1 - r) + r V_j + (1 - r) F_j           r = e^(-R_j / M)
    Y   = (M + D) (e^(H / M) - 1) + V_0             H: restart after such a failure; h: their share
M (1 - e^(-t / M)) is the expected time until an attempt of length t ends or fails. Everything is linear in V_0. One
position, h = 0: the closed form of `exact_s`. With another weight on M (1 - a) and M (1 - b), on M (1 - r) and M in Y,
or on D, the same recursion adds up the seconds of one kind alone (`Counted`).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Array
from lockstep.simulate.failures.pattern import Pattern, floats

Affine = tuple[Array, Array]
"""(constant, factor of V_0)."""


@dataclass(frozen=True, slots=True)
class Counted:
    """Weights of the seconds that are added up."""

    up: float = 1.0
    """Working and writing."""
    restarting: float = 1.0
    detecting: float = 1.0


ALL = Counted()
RESTARTS = Counted(up=0.0, detecting=0.0)


def cycle_time_s(pattern: Pattern, work_s: ArrayLike, mtbf_s: ArrayLike, counted: Counted = ALL) -> Array:
    """Expected seconds of one whole cycle of a long run, `work_s` of work before every checkpoint. Broadcasts.

    Infinite where it is too long for a number. `mtbf_s` finite unless it is a number.
    """
    work, mtbf = floats(work_s, mtbf_s)
    return _cycle(pattern, pattern.costs_s, work, mtbf, counted)[0]


def pattern_overhead_frac(pattern: Pattern, work_s: ArrayLike, mtbf_s: float) -> Array:
    """Expected time over useful work, minus 1, of a long run. Broadcasts."""
    work = np.asarray(work_s, dtype=np.float64)
    with np.errstate(over="ignore"):
        return np.asarray(cycle_time_s(pattern, work, mtbf_s) / (pattern.every * work) - 1)


def run_time_s(pattern: Pattern, work_s: float, intervals: int, mtbf_s: float, counted: Counted = ALL) -> float:
    """Expected seconds of a run of `intervals` intervals of `work_s` each, with no checkpoint after the last one."""
    work, mtbf = floats(work_s, mtbf_s)
    cycles = math.ceil(intervals / pattern.every)
    last = intervals - (cycles - 1) * pattern.every
    ending, from_start = _cycle(pattern, (*pattern.costs_s[: last - 1], 0.0), work, mtbf, counted)
    if cycles == 1:
        return float(from_start)
    usual, first = _cycle(pattern, pattern.costs_s, work, mtbf, counted)
    between_s = (cycles - 2) * usual if cycles > 2 else 0.0
    return float(first + between_s + ending)


def _cycle(
    pattern: Pattern, costs_s: tuple[float, ...], work: Array, mtbf_s: Array, counted: Counted
) -> tuple[Array, Array]:
    """(U_0 behind a written checkpoint, V_0 at the start of a run) of a cycle with these checkpoints."""
    if mtbf_s.ndim == 0 and np.isinf(mtbf_s):
        long = len(costs_s) * work + (1 - pattern.hidden_frac) * math.fsum(costs_s)
        hidden = pattern.hidden_frac * costs_s[-1]
        return counted.up * (long + hidden - pattern.hidden_frac * pattern.costs_s[-1]), counted.up * (long + hidden)
    later: Affine = (np.zeros(np.broadcast_shapes(work.shape, mtbf_s.shape)),) * 2
    costs, before_s, restarts_s = (
        np.reshape(each_s, (-1, *[1] * later[0].ndim))
        for each_s in (costs_s, (pattern.costs_s[-1], *costs_s[:-1]), pattern.restarts_s[: len(costs_s)])
    )
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        long_s, up_s = work + costs, counted.up * mtbf_s
        returns = _returns(pattern, restarts_s, mtbf_s, counted)
        again = (*_ends(long_s / mtbf_s, up_s), *returns)
        first = _ends((long_s - pattern.hidden_frac * before_s) / mtbf_s, up_s)
        for position in reversed(range(len(costs_s))):
            restarted, failed = _attempt(later, *(each[position] for each in again))
            later = _either(later, failed, *(each[position] for each in first))
        from_start = restarted[0] / (1 - restarted[1])
        return _finite(later[0] + later[1] * from_start), _finite(from_start)


def _ends(length: Array, up_s: Array) -> tuple[Array, Array, Array]:
    """(success, failure, seconds until either) of attempts of `length` MTBFs, which count `up_s` each."""
    success, failure = np.exp(-length), -np.expm1(-length)
    return success, failure, up_s * failure


def _returns(pattern: Pattern, restarts_s: Array, mtbf_s: Array, counted: Counted) -> tuple[Array, Array, Array]:
    """(f0, f1, f2) of every position: F = f0 + f1 V + f2 V_0, after X is put into F."""
    soft, broken = 1 - pattern.hard_frac, -np.expm1(-restarts_s / mtbf_s)
    restarting_s, noticing_s = counted.restarting * mtbf_s, counted.detecting * pattern.mean_detection_s
    scale = 1 - soft * broken
    fallback_s = (restarting_s + noticing_s) * np.expm1(pattern.hard_restart_s / mtbf_s)
    f0 = (noticing_s + soft * restarting_s * broken + pattern.hard_frac * fallback_s) / scale
    return f0, soft * (1 - broken) / scale, pattern.hard_frac / scale


def _attempt(
    later: Affine, success: Array, failure: Array, up_s: Array, f0: Array, f1: Array, f2: Array
) -> tuple[Affine, Affine]:
    """(V_j, F_j) for an attempt that leads to U_(j+1) = `later`."""
    own = 1 - failure * f1
    constant = (up_s + success * later[0] + failure * f0) / own
    factor = (success * later[1] + failure * f2) / own
    return (constant, factor), (f0 + f1 * constant, f1 * factor + f2)


def _either(later: Affine, failed: Affine, success: Array, failure: Array, up_s: Array) -> Affine:
    """U_j: on to the next position, or a failure."""
    constant = up_s + success * later[0] + failure * failed[0]
    return constant, success * later[1] + failure * failed[1]


def _finite(time_s: Array) -> Array:
    """Nothing but numbers: where success is too unlikely for arithmetic, the time is infinite."""
    return np.where(np.isfinite(time_s) & (time_s >= 0), time_s, math.inf)
