"""Local SGD on the clock: every K steps the slowest sum of K times, then an all-reduce of S; synchronous for K = 1.

seconds of a round = max over workers of (x_1 + ... + x_K) + all-reduce of S,   2 (n - 1) S / n bytes sent
"""

from __future__ import annotations

import numpy as np

from lockstep.lab.descent.local_rounds import LocalMethod, run_rounds
from lockstep.lab.race.course import Course, Leg, from_zero


def local(course: Course, period: int) -> Leg:
    """Local SGD with K = `period`; 1 is synchronous descent."""
    rounds = course.steps // period
    path = run_rounds(
        course.objective.gradient, course.workers, course.start, LocalMethod(course.step_size), [period] * rounds,
        noise=course.noise(course.workers, period).draw,
    )  # fmt: skip
    used_s = course.times_s[:, : rounds * period]
    sums_s = used_s.reshape(course.trials, rounds, period, -1).sum(axis=2)
    exchange_s = course.all_reduce_s()
    count = np.arange(rounds + 1)
    return Leg(
        name="synchronous" if period == 1 else f"local:{period}",
        saves="every step knows all gradients" if period == 1 else f"it sends and waits once in {period} steps",
        gradients=count * float(period),
        time_s=from_zero(sums_s.max(axis=2) + exchange_s),
        sent_B=count * (2 * (course.workers - 1) / course.workers * course.size_B),
        losses=course.objective.loss(path),
        compute_s=float(used_s.mean(axis=(0, 2)).sum()),
        exchange_s=rounds * exchange_s,
    )
