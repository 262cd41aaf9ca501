"""How many updates, and how long, workers at most some steps apart need on a quadratic, at the best step size."""

from __future__ import annotations

import numpy as np

from lockstep.base.types.arrays import Array
from lockstep.learn.lab.descent.delayed import follow
from lockstep.learn.lab.descent.updates import Updates, asynchronous


def best_run(
    times_s: Array, gap: int, sizes: Array, condition: float, target_frac: float
) -> tuple[int, float] | tuple[None, None]:
    """(updates, seconds) to `target_frac` of the first loss, of the step size that needs fewest; None where none does.

    `times_s`: seconds of every step (rows) of every worker (columns). `gap`: steps that a worker may be ahead of the
    slowest. `sizes`: step sizes to try. The quadratic has the curvatures 1 and 1 / `condition`.
    """
    made = asynchronous(times_s, gap)
    losses = losses_of(made, sizes, np.array([1.0, 1 / condition]))
    near = losses < target_frac * losses[0]
    reached = near[-1]
    if not reached.any():
        return None, None
    updates = min(int(np.flatnonzero(~column).max()) + 1 for column in near[:, reached].T)
    return updates, float(made.end_s[:updates].max())


def losses_of(made: Updates, sizes: Array, curvatures: Array) -> Array:
    """Loss on a quadratic, from 1 in every direction, after every update; one column per step size."""
    start = np.ones((len(sizes), len(curvatures)))
    every = np.broadcast_to(sizes[:, None], (len(made), *start.shape))
    with np.errstate(over="ignore", invalid="ignore"):
        found = follow(made.read, lambda at: at * curvatures, lambda at: at**2 @ curvatures, start, every)
    return found.losses
