"""Updates that descent takes on a quadratic, with and without delay, and what a delay costs where it saves waiting."""

from __future__ import annotations

import math
from functools import cache
from itertools import count
from typing import Any

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Array
from lockstep.check.evidence.claims.deciders import decides
from lockstep.learn.lab.descent.bounded import best_run
from lockstep.learn.lab.descent.delayed import descend
from lockstep.learn.lab.descent.updates import asynchronous
from lockstep.learn.lab.descent.workers import LocalMethod, run_rounds
from lockstep.learn.lab.laws import best_step, largest_stable_step, rate
from lockstep.learn.lab.objectives import digits_perceptron, sharpness
from lockstep.learn.lab.objectives.logistic import Perceptron
from lockstep.learn.lab.objectives.quadratic import power_law
from lockstep.learn.lab.statistics import SignNoise
from lockstep.simulate.play import parse_law


def _distances(curvature: float, step: float, delay: int, start: float, steps: int) -> Array:
    """Distance from the optimum before every update."""
    made = descend(np.array([curvature]), np.array([[start]]), step, delay=delay, steps=steps)
    return np.sqrt(2 * made.losses[:, 0] / curvature)


@decides("simulated")
def updates(curvature: float, step: float, delay: int, start: float, target: float, most: int) -> float:
    """Updates of descent on one quadratic, of `most`, after which the distance stays below the target."""
    far = np.flatnonzero(~(_distances(curvature, step, delay, start, most) < target))
    return float(far.max() + 1)


@decides("simulated")
def position(curvature: float, step: float, delay: int, start: float, updates: int) -> float:
    """Distance from the optimum after that many updates."""
    return float(_distances(curvature, step, delay, start, updates)[-1])


@decides("simulated")
def longest_stable_delay(curvature: float, step: float, start: float, steps: int) -> int:
    """Largest delay at which descent on a quadratic shrinks from one half of the steps to the next, tried in turn."""

    def grows(delay: int) -> bool:
        early, late = np.array_split(_distances(curvature, step, delay, start, steps), 2)
        return bool(late.max() > early.max())

    return next(delay for delay in count() if grows(delay + 1))


@decides("solved")
def best_updates(delay: int, condition: float, target: float) -> float:
    """Updates to a distance of `target` in the slowest direction, with the best constant step for that delay."""
    _, factor = best_step(delay, condition)
    return float(np.log(target) / np.log(factor))


@decides("solved")
def updates_per_age(delay: int, condition: float, target: float) -> float:
    """Those updates over the ones without delay, divided by 1 + delay."""
    many, few = (best_updates(one, condition, target) for one in (delay, 0))
    return many / few / (1 + delay)


@decides("solved")
def critical_growth(noise: float, target: float, axes: int, condition: float) -> float:
    """Critical batch with `noise` times the gradient noise over that before, on a quadratic with that many axes."""
    return _critical_batch(noise, target, axes, condition) / _critical_batch(1.0, target, axes, condition)


def _critical_batch(noise: float, target: float, axes: int, condition: float) -> float:
    """The batch that takes twice the fewest steps to a share `target` of the first loss."""
    problem = power_law(axes, condition, noise)
    loss = target * float(problem.expected_loss(0.0, 1.0, 1.0))
    twice, low, high = 2 * problem.fewest_steps(loss, math.inf)[0], 1e-3, 1e9
    while high > low * (1 + 1e-4):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if problem.fewest_steps(loss, middle)[0] > twice else (low, middle)
    return low


@decides("solved")
def factor(step: float, delay: int) -> float:
    """Factor of the distance per update in the long run; `step` times the curvature."""
    return rate(step, delay)


@decides("solved")
def rounds_growth(target: float, finer: float) -> float:
    """Fewest rounds to a gap of `target` / `finer` over those to `target`, by any method that combines gradients.

    On the hardest convex quadratic of 2 k + 1 coordinates k gradients span the first k of them, so that the least loss
    there, a linear system, bounds all methods. Gaps in units of L R^2. Source: Nesterov 2004, section 2.1.2.
    """
    return _fewest_rounds(target / finer) / _fewest_rounds(target)


def _fewest_rounds(target: float) -> int:
    return next(rounds for rounds in count(1) if _least_gap(rounds) <= target)


def _least_gap(rounds: int) -> float:
    """Least gap after as many gradients, over the largest curvature 4 and the squared distance to the optimum."""
    seen, whole = (_chain(size) for size in (rounds, 2 * rounds + 1))
    return float((whole[0] - seen[0]) / 2 / (4 * (whole @ whole)))


def _chain(size: int) -> Array:
    """Optimum of x'Ax / 2 - x_1 with 2 on A's diagonal and -1 next to it."""
    matrix = 2 * np.eye(size) - np.eye(size, k=1) - np.eye(size, k=-1)
    return np.linalg.solve(matrix, np.eye(size)[0])


@decides("simulated")
def lead(slow_s: float, factor: int, seconds: float) -> float:
    """Updates by which a worker is ahead of one that is `factor` times slower and takes `slow_s` for each."""
    number = int(factor * seconds / slow_s)
    made = asynchronous(np.tile([slow_s / factor, slow_s], (number, 1)))
    fast, slow = (int(((made.worker == worker) & (made.end_s <= seconds)).sum()) for worker in (0, 1))
    return fast - slow


@cache
def _race(
    gap: int,
    workers: int,
    law: str,
    slow_frac: float,
    slow: float,
    steps: int,
    condition: float,
    target: float,
    low: float,
    high: float,
    sizes: int,
    seed: int,
) -> tuple[int, float]:
    """(updates, seconds) to `target` of the first loss for workers at most `gap` steps apart, at the best step size.

    A step takes a worker a time from `law`, a share `slow_frac` of them `slow` times as long. The step size is the best
    of `sizes` from `low` to `high` in equal ratios, the loss a quadratic with two curvatures.
    """
    generator = np.random.default_rng(seed)
    slowdown = slow ** generator.binomial(1, slow_frac, (steps, workers))
    times_s = slowdown * parse_law(law).draw(generator, slowdown.size).reshape(slowdown.shape)
    updates, seconds = best_run(times_s, gap, np.geomspace(low, high, sizes), condition, target)
    return (steps * workers, math.inf) if updates is None or seconds is None else (updates, seconds)


@decides("simulated", kept="races")
def race(gap: int, what: str, seeds: int, seed: int, **course: Any) -> Array:
    """Updates to the target (`updates`), seconds (`s`) or seconds per update (`pace`), for `seeds` draws of times."""
    runs = np.array([_race(gap, seed=seed + more, **course) for more in range(seeds)])
    updates, seconds = runs.T
    return np.asarray({"s": seconds, "updates": updates, "pace": seconds / updates}[what])


@decides("simulated", kept="races")
def race_ratio(gap: int, other: int, what: str, seeds: int, seed: int, **course: Any) -> Array:
    """The same with one gap over that with another."""
    return race(gap, what, seeds, seed, **course) / race(other, what, seeds, seed, **course)


@dataclass(frozen=True, slots=True, eq=False)
class SquaredLoss(Perceptron):
    """The network on the digits with half the squared distance of its outputs to the class as loss."""

    def loss(self, parameters: Array) -> Array:
        squares: Array = self.errors(self.scores(parameters)) ** 2
        return np.asarray(0.5 * squares.sum() / len(self.classes))

    def errors(self, scores: Array) -> Array:
        """Outputs minus one at the right class."""
        found: Array = scores - np.eye(self.num_classes)[self.classes]
        return found


@cache
def _trained(loss: str, step: float, steps: int) -> tuple[Perceptron, Array]:
    """A small network on the digits after full-batch descent at a constant step, with its parameters.

    With squared loss it starts from weights a quarter as large, where it is far from interpolating.
    """
    chosen = digits_perceptron()
    point = chosen.start(0)
    if loss == "squared":
        chosen = SquaredLoss(chosen.inputs, chosen.classes, chosen.num_classes, chosen.hidden)
        point = point / 4
    for _ in range(steps):
        point = point - step * chosen.gradient(point)
    return chosen, point


@decides("simulated", kept="trained networks")
def trained_loss(loss: str, step: float, steps: int) -> float:
    """Loss of that network: squared or cross-entropy."""
    chosen, point = _trained(loss, step, steps)
    return float(chosen.loss(point))


@decides("simulated", kept="trained networks")
def curvature(loss: str, step: float, steps: int) -> float:
    """Largest curvature of that network's loss."""
    return sharpness(*_trained(loss, step, steps))


@decides("simulated", kept="trained networks")
def tolerable_delay(loss: str, step: float, steps: int) -> int:
    """Largest delay at which a quadratic of that network's curvature is stable at that step."""
    steepest = step * curvature(loss, step, steps)
    return next(delay for delay in count() if largest_stable_step(delay + 1) < steepest)


@decides("simulated")
def local_growth(workers: int, period: int, step: float, rounds: int) -> float:
    """log10 of the growth of the averaged parameters of local SGD on one quadratic, without noise."""
    path = run_rounds(lambda y: y, workers, np.array([[1.0]]), LocalMethod(step), [period] * rounds)
    return float(np.log10(path[-1].item()))


@decides("simulated")
def averaged_variance(workers: int, period: int, trials: int, seed: int) -> Array:
    """Squares of the averaged parameters after a round of noise alone, over the variance of one worker's."""
    start = np.zeros(trials)[:, None]
    noise = SignNoise.of(1.0, (workers, *start.shape), np.random.default_rng(seed))
    _, ends = run_rounds(np.zeros_like, workers, start, LocalMethod(1.0), [period], noise=noise.draw)
    return np.asarray(ends.ravel() ** 2 / period)
