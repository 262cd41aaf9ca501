"""Descent on old gradients, simulated with thousands of trials at once, and the edge at which it stops being stable.

    one quadratic, one delay    (`descend`)   v <- beta v + h x_(t-tau) + xi,   x <- x - a v
    any gradient and schedule   (`follow`)    v <- beta v + gradient after read_t updates + noise,   x <- x - a_t v
The trials are the rows of one array; the positions that somebody may still read live in a ring as long as the largest
delay. `descend` overwrites the position whose gradient has just been used, so a step is a few passes over arrays that
stay in the cache.

The edge of stability is found by running many step sizes at once, and which of the runs shrink. A linear recursion
grows or shrinks by a factor per step in the long run, so it is enough to compare the largest values of two late
windows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Array
from lockstep.learn.lab.statistics import SignNoise


@dataclass(frozen=True, slots=True, eq=False)
class Trajectories:
    """Half of h x^2, summed over directions, of every trial at the recorded steps: `losses` (records, trials)."""

    steps: Array
    losses: Array

    @property
    def averaged(self) -> Array:
        """Mean of every trial over its records."""
        found: Array = self.losses.mean(axis=0)
        return found

    @property
    def on_the_way(self) -> Array:
        """Mean of every trial over its records, without the last, from which no step is taken."""
        found: Array = self.losses[:-1].mean(axis=0)
        return found


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
    return Trajectories(np.array(recorded), losses)


def distances(step_size: float, steps: int, delay: int = 0, momentum: float = 0.0) -> Array:
    """|x| after 0, 1, ... `steps` steps of descent on x^2 / 2 from 1, without noise."""
    made = descend(np.ones(1), np.ones((1, 1)), step_size, delay=delay, momentum=momentum, steps=steps)
    found: Array = np.sqrt(2 * made.losses[:, 0])
    return found


RECORDS = 40
LONG = 4000
"""Steps from which the factor of a run is found."""


def settled(
    step_size: float, noise_std: float, trials: int, steps: int, *, curvature: float = 1.0, delay: int = 0, seed: int
) -> Array:
    """Loss of every trial on one quadratic from its optimum, averaged over the later half of the steps."""
    return descend(np.full(1, curvature), np.zeros((trials, 1)), step_size, delay=delay, noise_std=noise_std,
                   steps=steps, record_every=max(1, steps // RECORDS), first_record=steps // 2,
                   seed=seed).averaged  # fmt: skip


def reads(steps: int, delay: int) -> Array:
    """How many updates a gradient has seen that step 0, 1, ... applies, `delay` after it was read; 0 for the first."""
    return np.maximum(np.arange(steps) - delay, 0)


def _loss(curvatures: Array, position: Array) -> Array:
    """Half of h x^2 of every trial."""
    found: Array = 0.5 * np.einsum("td,td,d->t", position, position, curvatures)
    return found


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
    return Trajectories(np.array(recorded), losses)


CANDIDATES = 64
RESOLUTION = 2e-3
"""Relative width of the bracket at which a search ends."""
TINY, LIMIT = 1e-200, 1e200
STEEPEST = 4.5
"""Above every step times curvature at which a run shrinks: 2 (1 + momentum) without delay, less with one."""


def searched_edge(shrinks: Callable[[Array], Array], high: float = STEEPEST) -> float:
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


def factor(step_size: float, delay: int, momentum: float = 0.0) -> float:
    """Factor per step of a run on x^2 / 2 in the long run, by `growth`."""
    return growth(distances(step_size, LONG, delay, momentum))


def _within(position: Array) -> Array:
    """At most LIMIT from 0, in a third of the time of `np.clip` where there are few runs."""
    return np.minimum(np.maximum(position, -LIMIT, out=position), LIMIT, out=position)


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
        position = _within(position - velocity)
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
        ring[(place + 1) % longest] = _within(position)
        windows.see(place, np.abs(position))
    return windows.shrinking()
