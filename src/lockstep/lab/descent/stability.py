"""The edge of stability, found by running: many step sizes at once, and which of the runs shrink.

A linear recursion grows or shrinks by a factor per step in the long run, so it is enough to compare the largest values
of two late windows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lockstep.lab.findings import Array

CANDIDATES = 64
RESOLUTION = 2e-3
"""Relative width of the bracket at which a search ends."""
TINY, LIMIT = 1e-200, 1e200


def searched_edge(shrinks: Callable[[Array], Array], high: float) -> float:
    """The largest step up to `high` at which runs shrink; `shrinks` says it for an array of steps.

    The middle of the bracket between the largest step that shrinks and the next one, which grows.
    """
    low = 0.0
    while high - low > RESOLUTION * high:
        candidates = np.linspace(low, high, CANDIDATES + 1)[1:]
        grows = np.flatnonzero(~shrinks(candidates))
        first = int(grows[0]) if grows.size else len(candidates) - 1
        low, high = (float(candidates[first - 1]) if first else low), float(candidates[first])
    return (low + high) / 2


def growth(size: Array) -> float:
    """Factor per step of a run that grows or shrinks while it swings: the slope through its peaks in the later half.

    Where there are no three peaks the slope is that of the later half. Sizes near the ends of the range are left out; a
    run that is at 0 after a step or two has the factor 0.
    """
    good = np.flatnonzero((size > 1e-140) & (size < 1e140))
    usable = size[: int(good[-1]) + 1]
    if len(usable) < 3:
        return 0.0
    logs = np.log(np.maximum(usable[len(usable) // 2 :], TINY))
    peaks = np.flatnonzero((logs[1:-1] >= logs[:-2]) & (logs[1:-1] > logs[2:])) + 1
    ends = peaks[[0, -1]] if len(peaks) >= 3 else np.array([0, len(logs) - 1])
    return float(np.exp((logs[ends[1]] - logs[ends[0]]) / (ends[1] - ends[0])))


class Windows:
    """The largest sizes of runs in the four quarters of their steps."""

    def __init__(self, runs: int, steps: int) -> None:
        self.largest = np.zeros((4, runs))
        self.steps = steps

    def see(self, step: int, size: Array) -> None:
        """Notes the sizes at one step."""
        quarter = self.largest[4 * step // self.steps]
        np.maximum(quarter, size, out=quarter)

    def shrinking(self) -> Array:
        """Whether each run was smaller in the last quarter than in the one before; values beyond all range are not."""
        last, before = self.largest[3], self.largest[2]
        found: Array = (np.isfinite(last) & (last < before)) | (last < TINY)
        return found


def delayed_shrinks(step_curvature: Array, delay: int, momentum: float, steps: int) -> Array:
    """Whether descent with a fixed delay shrinks, for each value of a * lambda, from a start at 1."""
    ring = np.ones((delay + 1, len(step_curvature)))
    position, velocity = np.ones(len(step_curvature)), np.zeros(len(step_curvature))
    windows = Windows(len(step_curvature), steps)
    for step in range(steps):
        slot = step % (delay + 1)
        ring[slot] = position
        velocity = momentum * velocity + step_curvature * ring[(slot + 1) % (delay + 1)]
        position = np.clip(position - velocity, -LIMIT, LIMIT)
        windows.see(step, np.abs(position))
    return windows.shrinking()


def scheduled_shrinks(steps_curvature: Array, read: Array, weights: Array) -> Array:
    """Whether descent along a schedule shrinks, for each a * lambda; `weights` scale the step of every update."""
    updates, runs = len(read), len(steps_curvature)
    longest = int((np.arange(updates) - read).max()) + 1
    ring = np.ones((longest, runs))
    windows = Windows(runs, updates)
    for place in range(updates):
        position = ring[place % longest] - weights[place] * steps_curvature * ring[read[place] % longest]
        ring[(place + 1) % longest] = np.clip(position, -LIMIT, LIMIT)
        windows.see(place, np.abs(position))
    return windows.shrinking()
