"""Descent on old gradients, simulated: one quadratic, one delay, thousands of trials at once.

    v <- beta v + h x_(t-tau) + xi,   x <- x - a v
The trials are the rows of one array; the last tau + 1 positions live in a ring, and the new position overwrites the one
whose gradient has just been used. So a step is a few passes over arrays that stay in the cache.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lockstep.lab.experiment import Progress, silent
from lockstep.lab.findings import Array
from lockstep.lab.statistics.noise import SignNoise

REPORT_EVERY = 256


@dataclass(frozen=True, slots=True, eq=False)
class Trajectories:
    """Half of h x^2, summed over directions, of every trial at the recorded steps: `losses` (records, trials)."""

    steps: Array
    losses: Array


def descend(
    curvatures: Array,
    start: Array,
    step_sizes: Array | float,
    *,
    delay: int = 0,
    momentum: float = 0.0,
    noise_std: float = 0.0,
    steps: int,
    record_every: int = 1,
    first_record: int = 0,
    seed: int = 0,
    progress: Progress = silent,
) -> Trajectories:
    """Runs `start.shape[0]` trials from `start` (trials, directions) on the quadratic with `curvatures`.

    `step_sizes`: one for all trials, or one per trial. The first `delay` steps use the gradient of the start.
    """
    position = np.array(start, dtype=np.float64)
    ring = np.repeat(position[None], delay + 1, axis=0)
    factors = np.broadcast_to(np.asarray(step_sizes, dtype=np.float64).reshape(-1, 1) * curvatures, position.shape)
    velocity, change = np.zeros_like(position), np.empty_like(position)
    noise = SignNoise.of(noise_std, position.shape, np.random.Generator(np.random.SFC64(seed)))
    scale = np.asarray(step_sizes, dtype=np.float64).reshape(-1, 1)
    recorded = range(first_record, steps + 1, record_every)
    losses = np.empty((len(recorded), len(position)))
    for step in range(steps + 1):
        slot = step % (delay + 1)
        if step in recorded:
            losses[recorded.index(step)] = _loss(curvatures, ring[slot])
        oldest = ring[(slot + 1) % (delay + 1)]
        np.multiply(oldest, factors, out=change)
        if noise_std:
            drawn = noise.draw()
            drawn *= scale
            change += drawn
        if momentum:
            velocity *= momentum
            velocity += change
        np.subtract(ring[slot], velocity if momentum else change, out=oldest)
        if step % REPORT_EVERY == 0:
            progress(step, steps)
    return Trajectories(np.array(recorded), losses)


def _loss(curvatures: Array, position: Array) -> Array:
    """Half of h x^2 of every trial."""
    found: Array = 0.5 * np.einsum("td,td,d->t", position, position, curvatures)
    return found
