"""The exact interval between checkpoints for exponential failures, and the exact time of one interval.

    time   E = (M + D) e^(R / M) (e^((work + delta) / M) - e^(f delta / M))
    work   M (1 + W0(-e^(-1 - (1 - f) delta / M))),  at least f delta (a write ends before the next one begins)
M: mean time between failures; delta: seconds a checkpoint takes to write, a share f of it hidden behind work; R:
restart, begun anew when a failure strikes it; D: detection, when a dead job cannot die again; W0: Lambert's function.
For f = D = 0 the time is Daly's. What happens during a write is part of the model: the work done beside it is not in
that checkpoint, so it is done again after a failure; a failure during a write falls back to the checkpoint before.
R and D raise the cost and do not move the optimum, which sees only the blocking part of a write.

Source: J. T. Daly, Future Generation Computer Systems 22, 2006, section 3 (complete cost function, f = D = 0);
R. Corless et al., "On the Lambert W function", Advances in Computational Mathematics 5, 1996. f and D by the
same argument: attempts of  work + (1 - f) delta  after a checkpoint, of  work + delta  after a failure, and
(M + D) e^(R / M) - M  on average between a failure and the next attempt.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from lockstep.failures.arrays import Array, floats

STEPS = 40


def exact_s(write_s: ArrayLike, mtbf_s: ArrayLike, hidden_frac: ArrayLike = 0.0) -> Array:
    """Useful work between checkpoints with the smallest expected time per work, in seconds. Broadcasts."""
    write, mtbf, hidden = floats(write_s, mtbf_s, hidden_frac)
    blocking = (1 - hidden) * write
    return np.asarray(np.maximum(mtbf * one_plus_lambert(blocking / mtbf), write - blocking))


def interval_time_s(
    work_s: ArrayLike, write_s: ArrayLike, mtbf_s: ArrayLike, *, hidden_frac: ArrayLike = 0.0,
    restart_s: ArrayLike = 0.0, detection_s: ArrayLike = 0.0,
) -> Array:  # fmt: skip
    """Expected seconds from one finished checkpoint to the next, failures included. Broadcasts; may be infinite."""
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
