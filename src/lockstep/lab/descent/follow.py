"""Descent along a schedule of updates, each with its own delay: any gradient, many trials at once.

    g_t = gradient at the parameters after read_t updates + noise
    v <- beta v + g_t,   x_(t+1) = x_t - a_t v
The positions that somebody may still read live in a ring as long as the largest delay.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lockstep.lab.descent.delayed import REPORT_EVERY, Trajectories
from lockstep.lab.experiment import Progress, silent
from lockstep.lab.findings import Array


def follow(
    read: Array,
    gradient: Callable[[Array], Array],
    loss: Callable[[Array], Array],
    start: Array,
    step_sizes: Array | float,
    *,
    momentum: float = 0.0,
    noise: Callable[[], Array] | None = None,
    record_every: int = 1,
    progress: Progress = silent,
) -> Trajectories:
    """Runs all updates; `read` counts the updates that each one has seen, at most its own place.

    `read` (updates,), or (updates, trials) where every trial has its own schedule; `start` (trials, dimension);
    `step_sizes` one number, one per update, or (updates, trials, 1). `noise` gives an array of the shape of `start` for
    every update.
    """
    updates = len(read)
    given = np.asarray(step_sizes, dtype=np.float64)
    sizes = given if given.ndim else np.full(updates, given)
    longest = int((np.arange(updates) - read.T).max()) + 1
    ring = np.repeat(np.array(start, dtype=np.float64)[None], longest, axis=0)
    velocity = np.zeros_like(ring[0])
    every = (np.arange(len(start)),) if read.ndim == 2 else ()
    recorded = range(0, updates + 1, record_every)
    losses = np.empty((len(recorded), *loss(ring[0]).shape))
    for place in range(updates + 1):
        position = ring[place % longest]
        if place in recorded:
            losses[recorded.index(place)] = loss(position)
        if place == updates:
            break
        found = gradient(ring[read[place] % longest, *every])
        if noise is not None:
            found = found + noise()
        velocity = momentum * velocity + found
        ring[(place + 1) % longest] = position - sizes[place] * velocity
        if place % REPORT_EVERY == 0:
            progress(place, updates)
    return Trajectories(np.array(recorded), losses)
