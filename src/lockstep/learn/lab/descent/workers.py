"""Descent of several workers, simulated: rounds of local steps, and steps of compressed gradients.

In a round (`run_rounds`) workers step on their own, then agree; many trials at once, in arrays of the shape (workers,
trials, dimension). Its pieces are those of `lockstep.learn.methods.local`, which real runs use too. Compressed descent
(`descend`) runs on workers that differ, to a target; `best_run` finds the step size of the fewest steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Array
from lockstep.learn.lab.objectives.workers import Rotated
from lockstep.learn.lab.statistics import streams
from lockstep.learn.methods.compression import Compressor, exchange
from lockstep.learn.methods.local import (
    Outer,
    after_averaging,
    corrected_gradient,
    new_control,
    outer_gradient,
    proximal_gradient,
)

PLAIN = Outer()
"""Averaging."""


@dataclass(frozen=True, slots=True, eq=False)
class LocalMethod:
    """What workers do in a round and how they agree."""

    step_size: float | Array
    """One number, or an array that broadcasts to (workers, trials, dimension)."""
    momentum: float = 0.0
    buffers: str = "keep"
    proximal: float = 0.0
    """Strength of FedProx."""
    scaffold: bool = False
    outer: Outer = PLAIN
    participants: int | None = None
    """Workers that take part in a round, drawn anew for every round and trial; None for all."""

    @property
    def vectors_per_round(self) -> int:
        """Vectors of the size of the model that a worker sends per round."""
        return 1 + self.scaffold + (self.momentum > 0 and self.buffers == "average")


def run_rounds(
    worker_gradients: Callable[[Array], Array],
    workers: int,
    start: Array,
    method: LocalMethod,
    local_steps: Sequence[int],
    *,
    noise: Callable[[], Array] | None = None,
    seed: int = 0,
) -> Array:
    """Parameters after every round, (rounds + 1, trials, dimension), from `start` (trials, dimension).

    `local_steps`: steps of each round. `noise` gives an array (workers, trials, dimension) for every step.
    """
    common = np.array(start, dtype=np.float64)
    shape = (workers, *common.shape)
    path = np.empty((len(local_steps) + 1, *common.shape))
    path[0] = common
    outer_buffer, velocity = np.zeros_like(common), np.zeros(shape)
    own, control = np.zeros(shape), np.zeros_like(common)
    generator = np.random.default_rng(seed)
    for place, steps in enumerate(local_steps):
        local = np.broadcast_to(common, shape)
        for _ in range(steps):
            found = worker_gradients(local)
            if noise is not None:
                found = found + noise()
            if method.proximal:
                found = proximal_gradient(found, local, common, method.proximal)
            if method.scaffold:
                found = corrected_gradient(found, own, control)
            velocity = method.momentum * velocity + found
            local = local - method.step_size * velocity
        present = _participants(workers, common.shape[0], method.participants, generator)
        if method.scaffold:
            new = new_control(own, control, common, local, steps, method.step_size)  # type: ignore[arg-type]
            change = new - own if present is None else present[..., None] * (new - own)
            own, control = own + change, control + change.mean(0)
        if method.momentum:
            velocity = after_averaging(velocity, method.buffers)
        common, outer_buffer = method.outer.update(common, outer_gradient(common, local, present), outer_buffer)
        path[place + 1] = common
    return path


def _participants(workers: int, trials: int, number: int | None, generator: np.random.Generator) -> Array | None:
    """1.0 for the workers that take part, (workers, trials)."""
    if number is None or number >= workers:
        return None
    rank = generator.random((workers, trials)).argsort(axis=0).argsort(axis=0)
    found: Array = (rank < number).astype(np.float64)
    return found


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
