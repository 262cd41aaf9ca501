"""Compressed synchronous training on the clock: the largest entries of every gradient, with error feedback.

seconds of a step = max over workers of x + S / compressing rate + all-gather of the payloads of all
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lockstep.base.types.arrays import Array
from lockstep.learn.lab.race.course import Course, Leg, from_zero
from lockstep.learn.lab.statistics import SignNoise
from lockstep.learn.methods.compression import ErrorFeedback, TopK, exchange
from lockstep.simulate.collectives import best_time_s

FIRST_STREAM = 20_000
VALUE_B = 4
"""Of a gradient's number."""
MEMORY_PASSES = 8
"""Assumed: g and e read, p written; p read to select; c written; p and c read, e written. Selecting takes longer."""


def compress_s(course: Course) -> float:
    """Seconds in which a worker compresses and restores one gradient."""
    return course.size_B / course.compress_Bps


def compressed(course: Course, keep_frac: float) -> Leg:
    """Synchronous descent that sends a share of the entries."""
    made = ErrorFeedback(TopK(keep_frac))
    payload_B = float(made.size_B(max(1, round(course.size_B / VALUE_B))) or 0.0)
    exchange_s = float(best_time_s("all-gather", course.workers, payload_B * course.workers, course.link))
    times_s = course.times_s + compress_s(course)
    count = np.arange(course.steps + 1)
    return Leg(
        name=f"top-k {keep_frac:.3g}",
        saves=f"it sends {payload_B / course.size_B:.2g} of a gradient's bytes",
        gradients=count.astype(float),
        time_s=from_zero(times_s.max(axis=2) + exchange_s),
        sent_B=count * (course.workers - 1) * payload_B,
        losses=np.stack([_losses(course, made, trial) for trial in range(course.trials)], axis=1),
        compute_s=float(times_s.mean(axis=(0, 2)).sum()),
        exchange_s=course.steps * exchange_s,
    )


def _losses(course: Course, made: ErrorFeedback, trial: int) -> Array:
    """Losses of one trial."""
    generator = np.random.default_rng([course.seed, FIRST_STREAM, trial])
    noise = SignNoise.of(course.noise_std, (course.workers, course.objective.dimension), generator)
    point = course.start[trial]
    states: Any = [made.start(point) for _ in range(course.workers)]
    losses = [float(course.objective.loss(point))]
    for _ in range(course.steps):
        gradients = course.objective.gradient(point) + noise.draw()
        found = exchange(made, list(gradients), states, [generator] * course.workers)
        states, point = found.states, point - course.step_size * found.mean
        losses.append(float(course.objective.loss(point)))
    return np.array(losses)
