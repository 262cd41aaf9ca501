"""Updates that descent takes on a quadratic, with and without delay, and what a delay costs where it saves waiting."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from lockstep.evidence.claims.deciders import Simulated, decides
from lockstep.lab.descent.delayed import descend, follow
from lockstep.lab.descent.updates import Updates, asynchronous
from lockstep.lab.descent.workers import LocalMethod, run_rounds
from lockstep.lab.laws import best_step, largest_stable_step
from lockstep.lab.objectives import digits_perceptron, sharpness
from lockstep.lab.objectives.logistic import Perceptron
from lockstep.lab.statistics import SignNoise
from lockstep.types.arrays import Array

DIVERGED = 1e6
MOST_STEPS = 20_000


def _distances(curvature: float, step: float, delay: int, start: float, steps: int) -> Array:
    """Distance from the optimum before every update."""
    made = descend(np.array([curvature]), np.array([[start]]), step, delay=delay, steps=steps)
    return np.sqrt(2 * made.losses[:, 0] / curvature)


@decides("simulated")
def updates(
    curvature: float, step: float, delay: int = 0, start: float = 1.0, target: float = 0.01, most: int = 3000
) -> float:
    """Updates of descent on one quadratic after which the distance stays below the target, or infinity."""
    with np.errstate(over="ignore", invalid="ignore"):
        distance = _distances(curvature, step, delay, start, most)
    late = np.flatnonzero(~(distance < target))
    return float("inf") if not len(late) or late[-1] == most else float(late[-1] + 1)


@decides("simulated")
def position(curvature: float, step: float, updates: int, start: float, delay: int = 0) -> float:
    """Distance from the optimum after that many updates."""
    return float(_distances(curvature, step, delay, start, updates)[-1])


@decides("simulated")
def longest_stable_delay(step_curvature: float) -> int:
    """Largest delay at which descent on a quadratic shrinks, by running one delay after another."""
    found = 0
    while float(_distances(1.0, step_curvature, found + 1, 1.0, 4000)[-400:].max()) < 0.5 and found < 200:
        found += 1
    return found


@decides("solved")
def best_updates(delay: int, condition: float, target: float) -> float:
    """Updates to a distance of `target` in the slowest direction, with the best constant step for that delay."""
    _, factor = best_step(delay, condition)
    return float(np.log(target) / np.log(factor))


WORKERS, STEPS, SEEDS = 16, 40, 200
SLOW_FRAC, SLOW = 0.1, 5.0
CANDIDATES = np.geomspace(0.05, 1.6, 24)
CURVATURES = np.array([1.0, 1 / 30])


@cache
def _race(gap: int, seed: int) -> tuple[int, float]:
    """(updates, seconds) to a hundredth of the first loss for workers at most `gap` steps apart, at the best step."""
    generator = np.random.default_rng(seed)
    slow = np.where(generator.random((STEPS, WORKERS)) < SLOW_FRAC, SLOW, 1.0)
    made = asynchronous(slow * generator.uniform(0.95, 1.05, slow.shape), gap)
    losses = _losses(made)
    reached = losses < 0.01 * losses[0]
    stays = np.logical_and.accumulate(reached[::-1])[::-1]
    first = np.where(stays.any(axis=0), stays.argmax(axis=0), len(made))
    updates = int(first.min())
    return updates, float(made.end_s[updates - 1])


def _losses(made: Updates) -> Array:
    """Loss on a quadratic after every update, one column per step size."""

    def loss(point: Array) -> Array:
        return np.asarray(0.5 * (point**2 * CURVATURES).sum(axis=-1))

    start = np.ones((len(CANDIDATES), len(CURVATURES)))
    sizes = np.broadcast_to(CANDIDATES[:, None], (len(made), len(CANDIDATES), 1))
    with np.errstate(over="ignore", invalid="ignore"):
        return follow(made.read, lambda point: point * CURVATURES, loss, start, sizes).losses


def _over(values: list[float]) -> Simulated:
    return Simulated(float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(len(values))), len(values))


@decides("simulated")
def race_ratio(gap: int, other: int, what: str = "s", seed: int = 0) -> Simulated:
    """Seconds to the target (`s`), updates (`updates`), or seconds per update (`pace`) with one gap over another's."""
    ratios = []
    for more in range(SEEDS):
        (updates, seconds), (updates_other, seconds_other) = _race(gap, seed + more), _race(other, seed + more)
        ratio_s, ratio_updates = seconds / seconds_other, updates / updates_other
        ratios.append({"s": ratio_s, "updates": ratio_updates, "pace": ratio_s / ratio_updates}[what])
    return _over(ratios)


@dataclass(frozen=True, slots=True, eq=False)
class SquaredLoss(Perceptron):
    """The network on the digits with half the squared distance of its outputs to the class as loss."""

    def loss(self, parameters: Array) -> Array:
        found: Array = 0.5 * (self.errors(self.scores(parameters)) ** 2).sum(-1).mean(-1)
        return found

    def errors(self, scores: Array) -> Array:
        """Outputs minus one at the right class."""
        found: Array = scores - np.eye(self.num_classes)[self.classes]
        return found


@cache
def _curvatures(squared: bool, step: float, steps: int) -> tuple[float, float]:
    """Largest curvature at the start and after full-batch descent at a constant step.

    With squared loss the network starts from weights a quarter as large, where it is far from interpolating.
    """
    chosen = digits_perceptron()
    point = chosen.start(0)
    if squared:
        chosen = SquaredLoss(chosen.inputs, chosen.classes, chosen.num_classes, chosen.hidden)
        point = point / 4
    first = sharpness(chosen, point)
    for _ in range(steps):
        point = point - step * chosen.gradient(point)
    return first, sharpness(chosen, point)


@decides("simulated")
def tolerable_change(loss: str, step: float, steps: int, cut: float = 1.0) -> float:
    """Delay that a small network on the digits bears late over the delay that it bears early.

    `loss` is squared or cross-entropy; the step is divided by `cut` at the end.
    """
    first, last = _curvatures(loss == "squared", step, steps)
    return _tolerable(step / cut * last) / _tolerable(step * first)


def _tolerable(step_curvature: float) -> int:
    """Largest delay at which a quadratic of that step times curvature is stable."""
    found = 0
    while largest_stable_step(found + 1) > step_curvature:
        found += 1
    return found


@decides("simulated")
def local_growth(workers: int, period: int, step: float) -> float:
    """log10 of the growth of the averaged parameters of local SGD on one quadratic in 400 steps, without noise."""
    path = run_rounds(lambda y: y, workers, np.ones((1, 1)), LocalMethod(step), [period] * (400 // period))
    return float(np.log10(np.abs(path[-1]).max()))


TRIALS = 4000


@decides("simulated")
def averaged_variance(workers: int, period: int = 4, seed: int = 0) -> Simulated:
    """Variance of the averaged parameters after a round of noise alone, over that of one worker's."""
    noise = SignNoise.of(1.0, (workers, TRIALS, 1), np.random.default_rng(seed))
    ends = run_rounds(
        lambda y: 0.0 * y, workers, np.zeros((TRIALS, 1)), LocalMethod(1.0), [period], noise=noise.draw
    )[-1]  # fmt: skip
    squares = ends[:, 0] ** 2 / period
    return Simulated(float(squares.mean()), float(squares.std(ddof=1) / np.sqrt(TRIALS)), TRIALS)
