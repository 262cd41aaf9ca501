"""Local steps are not old gradients: with one common curvature the averaged parameters do not depend on K at all.

When all workers have the same quadratic, averaging after K steps or after every step gives the same parameters, with
noise and without: averaging and the (linear) gradient change places. Counted single gradients, the last step of a round
has missed (n - 1)(K - 1) others, but each of them enters with weight 1 / n. Refuted: that local SGD with n = 8 and
K = 2 behaves like a delay of K (n - 1) = 14, which diverges from a step of 0.108 / L on.
"""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.settings import setting
from lockstep.base.types.arrays import Array
from lockstep.learn.lab import ALWAYS, Check, Curve, Findings, Law, Picture, Progress, example, watched
from lockstep.learn.lab.descent.delayed import distances
from lockstep.learn.lab.descent.workers import LocalMethod, run_rounds
from lockstep.learn.lab.laws import largest_stable_step
from lockstep.learn.lab.statistics import SignNoise

QUESTION = "Is local SGD the same as SGD with stale gradients?"
SOURCE = "linearity; Khaled, Mishchenko and Richtarik 2020; Woodworth et al. 2020"

DIMENSION = 10
MOST_STEPS = 100_000
ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class Settings:
    """Workers, periods and the step."""

    workers: int = setting(8, "Number of workers, all with the same data.", least=2, most=512)
    periods: tuple[int, ...] = setting((1, 2, 4, 8, 16, 32, 64), "Local steps K between averages.", least=1, most=1024)
    step_size: float = setting(0.5, "Step size, for curvatures up to 1.", above=0, below=2)
    noise_std: float = setting(1.0, "Standard deviation of the gradient noise in every direction.", least=0, most=100)
    steps: int = setting(128, "Steps of a run, rounded up to whole rounds of every period.", least=8, most=10_000)


def run(settings: Settings, seed: int, progress: Progress) -> Findings:
    """The same noise for every period; the delayed run beside it."""
    periods = sorted(set(settings.periods))
    common, periods = _together(periods)
    steps = -(-settings.steps // common) * common
    curvatures = np.random.default_rng([seed, 1]).random(DIMENSION)
    ends, curves = [], []
    for period in watched(periods, progress):
        shape = (settings.workers, 1, DIMENSION)
        noise = SignNoise.of(settings.noise_std, shape, np.random.default_rng(seed))
        path = run_rounds(
            lambda y: curvatures * y, settings.workers, np.ones((1, DIMENSION)), LocalMethod(settings.step_size),
            [period] * (steps // period), noise=noise.draw,
        )  # fmt: skip
        ends.append(path[-1, 0])
        losses = 0.5 * (curvatures * path[:, 0] ** 2).sum(-1)
        curves.append(Curve(f"K = {period}", np.arange(len(path)) * float(period), losses, marks=period > 1))
    apart = float(np.linalg.norm(np.ptp(ends, axis=0)))
    alone = _on_the_mean(settings, curvatures, steps, seed)
    count = settings.workers * (periods[-1] - 1)
    return Findings(
        checks=(
            Check(f"largest difference between all periods after {steps} steps", 0.0, apart, tolerance=ROUNDING,
                  holds=ALWAYS),
            Check("largest difference from descent on the mean of all gradients", 0.0,
                  float(np.linalg.norm(ends - alone)), tolerance=ROUNDING * len(ends), holds=ALWAYS),
            _like_a_delay(settings),
            *_missed(settings.workers, periods[-1]),
            *_longer_than_all(),
        ),
        theory=(
            Law("difference between periods, equal curvature", 0.0, "averaging is linear", "Khaled et al. 2020"),
            Law("stability limit of the delay K (n - 1) for K = 2", _edge(settings), "2 sin(pi / (2 (2 tau + 1)))",
                "learn/lab/laws.py"),
            Law("gradients missed at the end of a round", count - periods[-1] + 1.0, "(n - 1)(K - 1)", "counting"),
        ),
        curves=tuple(curves),
        picture=Picture("step", "loss", log_y=True),
        conclusion=f"K from {periods[0]} to {periods[-1]} give the same parameters to {apart:.1g}",
        assumptions=("all workers have the same quadratic; the same noise at every worker and step for every period",),
    )  # fmt: skip


def _together(periods: list[int]) -> tuple[int, list[int]]:
    """Steps after which rounds of all periods end; where too many, the longest period, with its divisors."""
    common, longest = math.lcm(*periods), max(periods)
    if common <= MOST_STEPS:
        return common, periods
    return longest, [period for period in periods if longest % period == 0]


def _on_the_mean(settings: Settings, curvatures: Array, steps: int, seed: int) -> Array:
    """Parameters after the steps of one worker that takes the mean of all workers' noise."""
    noise = SignNoise.of(settings.noise_std, (settings.workers, DIMENSION), np.random.default_rng(seed))
    x = np.ones(DIMENSION)
    for _ in range(steps):
        x = x - settings.step_size * (curvatures * x + noise.draw().mean(axis=0))
    return x


def _edge(settings: Settings) -> float:
    return largest_stable_step(2 * (settings.workers - 1))


def _like_a_delay(settings: Settings) -> Check:
    """Local SGD with K = 2, no noise, beside descent with a delay of 2 (n - 1): the size after 200 steps."""
    step = 2 * _edge(settings)
    *_, grown = distances(step, steps=400, delay=2 * (settings.workers - 1))
    path = run_rounds(lambda y: y, settings.workers, np.ones((1, 1)), LocalMethod(step), [2] * 200)
    what = f"K = 2 diverges at a L = {step:.3g} like a delay of {2 * (settings.workers - 1)}"
    return Check(what, float(grown), float(abs(path[-1, 0, 0])), tolerance=0.1 * grown, false_law=True, holds=ALWAYS)


def _missed(workers: int, period: int) -> tuple[Check, ...]:
    """Gradients of a round that others had taken in earlier steps and that a worker has not seen, counted."""
    return (
        Check(f"gradients missed in the last step of K = {period}", (workers - 1.0) * (period - 1),
              _unseen(workers, period), holds=ALWAYS),
        Check("K (n - 1) gradients are missed, K = 1", workers - 1.0, _unseen(workers, 1), false_law=True,
              holds=ALWAYS),
    )  # fmt: skip


def _unseen(workers: int, period: int) -> float:
    """Gradients of all but one worker before the last step of a round."""
    taken = product(range(workers), range(period))
    return float(sum(worker > 0 and step + 1 < period for worker, step in taken))


def _longer_than_all() -> list[Check]:
    """Periods whose common multiple is beyond all measure, of which the longest and its divisors are left."""
    common, left = _together([7, 8, 500, 999, 1000])
    return [
        Check("common rounds of K = 7, 8, 500, 999 and 1000: steps", 1000, common, holds=example("too many steps")),
        Check("common rounds of K = 7, 8, 500, 999 and 1000: sum of those left", 8 + 500 + 1000, sum(left),
              holds=example("too many steps")),
    ]  # fmt: skip
