"""Runs of compressed gradient descent on workers that differ, to a target, and the step size of the fewest steps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from lockstep.lab.findings import Array
from lockstep.lab.objectives.rotated import Rotated
from lockstep.lab.statistics.draws import streams
from lockstep.methods.compression import Compressor, exchange

DIVERGED = 1e3
"""Loss over that at the start at which a run has left."""
LARGEST_STEP = 1.9
"""Near the edge of plain descent, 2 over the largest curvature, which is about 1."""
MOST_HALVINGS = 10


@dataclass(frozen=True, slots=True)
class Reached:
    """The steps a run took, or None if it did not arrive, and its loss on the way."""

    steps: int | None
    step_size: float
    losses: Array
    """Over that at the start, after 0, 1, ... steps."""


def descend(
    problem: Rotated, start: Array, made: Compressor, step_size: float, target: float, most_steps: int, seed: int
) -> Reached:
    """Compressed gradient descent until the loss falls to `target` of the start, grows 1000 times or time is up."""
    ranks, point = problem.workers, start
    # What adds up may rest on a shared draw, so its ranks get equal generators.
    generators = [streams(seed, ranks)[0 if made.summable else rank] for rank in range(ranks)]
    states: Any = [made.start(point) for _ in range(ranks)]
    first = float(problem.loss(point))
    losses = [1.0]
    for _ in range(most_steps):
        found = exchange(made, list(problem.worker_gradients(point)), states, generators)
        states, point = found.states, point - step_size * found.mean
        losses.append(float(problem.loss(point)) / first)
        if not target < losses[-1] < DIVERGED:
            break
    arrived = losses[-1] <= target
    return Reached(len(losses) - 1 if arrived else None, step_size, np.array(losses))


def best_run(problem: Rotated, start: Array, made: Compressor, target: float, most_steps: int, seed: int) -> Reached:
    """The run of fewest steps over step sizes 1.9, 1.9 / 2, 1.9 / 4, ... until two in a row are worse."""
    best = descend(problem, start, made, LARGEST_STEP, target, most_steps, seed)
    worse = 0
    for halvings in range(1, MOST_HALVINGS):
        step_size = LARGEST_STEP * 2.0**-halvings
        tried = descend(problem, start, made, step_size, target, best.steps or most_steps, seed)
        if (tried.steps or math.inf) < (best.steps or math.inf):
            best, worse = tried, 0
        elif best.steps is not None:
            worse += 1
        if worse == 2:
            break
    return best
