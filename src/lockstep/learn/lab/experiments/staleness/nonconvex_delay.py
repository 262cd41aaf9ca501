"""Delays where nothing is convex: a bound on the mean squared gradient that holds, and two that do not.

If a L + 2 a^2 L^2 tau^2 <= 1 then
    (1/T) sum E |grad f(x_t)|^2 <= 2 D / (a T) + a L s^2 (1 + 2 a L tau),   D = f(x_0) - lowest
with a delay tau, s^2 the variance of a gradient. So a delay multiplies the noise by at most 2.42, not by (1 + tau)^2.
Refuted: the printed bound without a condition on the step (it diverges at a = 1/2, tau = 10), and for the last iterate
instead of the mean (a plateau may end in a cliff at any time).
"""

from __future__ import annotations

import math

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.settings import setting
from lockstep.learn.lab import ALWAYS, Check, Curve, Findings, Law, Picture, Progress, example, mean_and_error, watched
from lockstep.learn.lab.descent.delayed import distances, follow, reads
from lockstep.learn.lab.objectives import LANDSCAPES
from lockstep.learn.lab.statistics import SignNoise

QUESTION = "What is guaranteed about the gradient norm when the loss is non-convex and gradients are stale?"
SOURCE = "descent lemma with delay; Lian, Huang, Li and Liu, NIPS 2015"


@dataclass(frozen=True, slots=True)
class Settings:
    """Delays and the size of the runs."""

    delays: tuple[int, ...] = setting(
        (0, 1, 5, 10, 20, 50), "Delays of a gradient, in updates between reading and applying.", least=0, most=500
    )
    noise_std: float = setting(1.0, "Standard deviation of the gradient noise in every direction.", least=0, most=100)
    steps: int = setting(600, "Updates in a run.", least=100, most=100_000)
    trials: int = setting(200, "Independent runs.", least=10, most=10_000)


def run(settings: Settings, seed: int, progress: Progress) -> Findings:
    """Mean squared gradient on the ripples, at the largest step that the condition allows."""
    objective = LANDSCAPES["ripples"]
    smoothness = float(objective.smoothness or math.nan)
    shape = (settings.trials, objective.dimension)
    start = np.full(shape, 2.0)
    first = float(objective.loss(start[0]))
    delays = sorted(set(settings.delays))
    bounds, means, halves, checks = [], [], [], []
    for place, delay in enumerate(watched(delays, progress)):
        step = _largest_step(smoothness, delay)
        noise = SignNoise.of(settings.noise_std, shape, np.random.default_rng([seed, place]))
        made = follow(
            reads(settings.steps, delay),
            objective.gradient,
            lambda x: (objective.gradient(x) ** 2).sum(-1),
            start,
            step,
            noise=noise.draw,
        )
        mean, error = mean_and_error(made.on_the_way)
        bounds.append(_bound(step, settings.steps, delay, smoothness, settings.noise_std, objective.dimension, first))
        means.append(mean)
        halves.append(1.96 * error)
        what = f"mean squared gradient, delay {delay}"
        checks.append(
            Check(what, bounds[-1], mean, standard_error=error, relation="at most", runs=settings.trials, holds=ALWAYS)
        )
    x = np.array(delays, dtype=float)
    return Findings(
        checks=(*checks, _at_the_condition(smoothness, delays), _no_condition(), _last_iterate(), _in_numbers()),
        theory=tuple(
            Law(f"bound, delay {delay}", bound, "2 D/(a T) + a L s^2 (1 + 2 a L tau)", SOURCE)
            for delay, bound in zip(delays, bounds, strict=True)
        ),
        curves=(
            Curve("simulated", x, np.array(means), half_ci95=np.array(halves), marks=True),
            Curve("bound", x, np.array(bounds), theory=True),
        ),
        picture=Picture("delay_steps", "mean_squared_gradient", log_y=True),
        conclusion="the mean squared gradient is below its bound by a factor of at least "
        f"{min(np.array(bounds) / means):.3g}",
        assumptions=("ripples in four dimensions, L = 3", "the largest step with a L + 2 a^2 L^2 tau^2 <= 1"),
    )


def _bound(
    step: float, steps: int, delay: int, smoothness: float, noise_std: float, dimension: int, gap: float
) -> float:
    """Of the mean squared gradient; the noise is that of every direction."""
    variance = noise_std**2 * dimension
    return 2 * gap / (step * steps) + step * smoothness * variance * (1 + 2 * step * smoothness * delay)


def _in_numbers() -> Check:
    """The bound where all of its parts are seen: 2 x 3 / (0.5 x 20) + 0.5 x 0.4 x 18 (1 + 2 x 0.5 x 0.4 x 6)."""
    return Check("bound at a = 0.5, T = 20, tau = 6, L = 0.4, s^2 = 2 x 3^2, D = 3", 0.6 + 3.6 * 3.4,
                 _bound(0.5, 20, 6, 0.4, 3.0, 2, 3.0), tolerance=1e-12, holds=example("numbers"))  # fmt: skip


def _largest_step(smoothness: float, delay: int) -> float:
    """a with a L + 2 a^2 L^2 tau^2 = 1."""
    if delay == 0:
        return 1 / smoothness
    return (math.sqrt(1 + 8 * delay**2) - 1) / (4 * delay**2 * smoothness)


def _at_the_condition(smoothness: float, delays: list[int]) -> Check:
    """The steps of all delays put into the condition."""
    products = [(_largest_step(smoothness, delay) * smoothness, delay) for delay in delays]
    off = max(abs(product + 2 * (product * delay) ** 2 - 1) for product, delay in products)
    return Check("a L + 2 a^2 L^2 tau^2 of the steps, largest distance from 1", 0.0, off, tolerance=1e-9, holds=ALWAYS)


def _no_condition() -> Check:
    """2 D / ((T - 1) a) for any step: a = 1/2, tau = 10, no noise, on x^2 / 2 from 1."""
    steps, step = 200, 0.5
    *_, last = distances(step, steps, delay=10)
    return Check("the bound holds at any step", 1 / ((steps - 1) * step), float(last**2), relation="at most",
                 false_law=True, holds=example("x^2 / 2 from 1, a = 1/2, delay 10, no noise, 200 steps"))  # fmt: skip


def _last_iterate() -> Check:
    """2 D / ((T - 1) a) for the last iterate, T the step at which the run goes over the edge of the plateau."""
    objective = LANDSCAPES["cliff"]
    step = 0.3 / float(objective.smoothness or math.nan)
    read = np.arange(6000)
    made = follow(read, objective.gradient, lambda x: (objective.gradient(x) ** 2).sum(-1), np.full((1, 1), 2.5), step)
    squared = made.losses[:, 0]
    last = int(squared.argmax())
    lowest = float(objective.loss(np.linspace(-5, 5, 100_001)[:, None]).min())
    gap = float(objective.loss(np.full(1, 2.5))) - lowest
    what = f"the bound holds for the last iterate, after {last} steps on a plateau"
    return Check(what, 2 * gap / ((last - 1) * step), float(squared[last]), relation="at most", false_law=True,
                 holds=example("a cliff from 2.5, a L = 0.3, no delay"))  # fmt: skip
