"""Synchronous descent on a convex loss: the bound on the averaged iterate, and the exact floor of the last one.

    E f(mean of x_0 ... x_(T-1)) - lowest <= R^2 / (2 a T) + a s^2 / (2 B)      for a <= 1 / L
    f = L x^2 / 2: stationary E f = a s^2 / (2 B (2 - a L))
R distance of the start, s^2 variance of one sample's gradient, B samples of a batch. Refuted: noise that grows with the
batch, a S L B s^2 / (2 (1 - a L)) with a step up to 2 / L, a speed that does not depend on the step, a noise term that
vanishes with T or knows mu and not L, and a descent inequality in which noise helps.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.settings import setting
from lockstep.learn.lab import (
    ALWAYS,
    Check,
    Curve,
    Findings,
    Law,
    Picture,
    Progress,
    example,
    mean_and_error,
    watched,
    when,
)
from lockstep.learn.lab.descent.delayed import descend, distances, settled
from lockstep.learn.lab.laws import stationary_variance
from lockstep.learn.lab.objectives import LANDSCAPES, Objective, Quadratic
from lockstep.learn.lab.statistics import SignNoise, quotient, streams

QUESTION = "Which loss does synchronous SGD guarantee, for which step size and batch size?"
SOURCE = "expand |x - x*|^2 and sum; Lan 2012, Bubeck 2015 theorem 6.3"
SHAPES: dict[str, tuple[Objective, float]] = {
    "quadratic": (Quadratic(np.ones(1), np.zeros(1)), 1.0),
    "huber": (LANDSCAPES["huber"], 3.0),
}
"""Objectives, with the distance from the optimum at which every direction starts."""
STEPS = 400
"""Of the runs that show the floor."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Steps and batches."""

    steps_of_smoothness: tuple[float, ...] = setting(
        (0.03, 0.1, 0.3, 1.0), "Step sizes times the smoothness L.", above=0, most=1
    )
    batches: tuple[int, ...] = setting((1, 8, 64), "Batch sizes, in samples per step.", least=1, most=1_000_000)
    steps: int = setting(300, "Steps of a run.", least=10, most=100_000)
    trials: int = setting(400, "Independent runs.", least=10, most=100_000)


def run(settings: Settings, seed: int, progress: Progress) -> Findings:
    """Gaps of the averaged iterate on a quadratic and on Huber's loss; floors on the quadratic."""
    sizes, batches = sorted(set(settings.steps_of_smoothness)), sorted(set(settings.batches))
    cases = list(product(SHAPES, batches, sizes))
    gaps = {
        (name, batch, step): _averaged_gap(*SHAPES[name], step, batch, settings, draws)
        for (name, batch, step), draws in watched(zip(cases, streams(seed, len(cases)), strict=True), progress)
    }
    checks = {
        (name, batch, step): Check(f"gap on {name}, batch {batch}, a L = {step:g}",
                                   _bound(*SHAPES[name], step, batch, settings.steps), *gap, relation="at most",
                                   runs=settings.trials, holds=ALWAYS)
        for (name, batch, step), gap in gaps.items()
    }  # fmt: skip
    exact = [
        Check(f"gap of the mean on x^2 / 2, batch {batch}, a = {step:g}", mean_gap(step, batch, settings.steps),
              *gaps["quadratic", batch, step], runs=settings.trials, holds=ALWAYS)
        for batch, step in product(batches, sizes)
    ]  # fmt: skip
    floors = [_floor_check(batch, settings, seed) for batch in batches]
    return Findings(
        checks=(
            *checks.values(),
            *exact,
            *floors,
            *_false_floors(floors, settings, seed),
            *_false_laws(),
            _in_numbers(),
        ),
        theory=tuple(
            Law(f"floor, batch {batch}, a L = 0.5", _floor(batch), "a s^2 / (2 B (2 - a L))", "stationary variance")
            for batch in batches
        ),
        curves=tuple(
            curve
            for batch in batches
            for curve in _curves(batch, [checks["quadratic", batch, one] for one in sizes], sizes)
        ),
        picture=Picture("step_size_times_smoothness", "gap", log_x=True, log_y=True),
        conclusion="a small step is slow, a large one leaves more noise; the noise falls as 1 / batch size",
        assumptions=(
            "s = 1 and L = 1 in every direction; the quadratic starts at 1, Huber's loss at 3 in four directions",
        ),
    )


def _curves(batch: int, checks: list[Check], sizes: list[float]) -> tuple[Curve, Curve]:
    """Gaps over the step size, simulated and their bound."""
    x, gaps, halves, bounds = np.array(
        [(size, one.got, 1.96 * one.standard_error, one.expected) for size, one in zip(sizes, checks, strict=True)]
    ).T
    return (Curve(f"batch {batch}, simulated", x, gaps, halves, marks=True),
            Curve(f"batch {batch}, bound", x, bounds, theory=True))  # fmt: skip


def _bound(objective: Objective, distance: float, step: float, batch: int, steps: int) -> float:
    """Of the first line, over all directions."""
    return objective.dimension * (distance**2 / (2 * step * steps) + step / (2 * batch))


def _in_numbers() -> Check:
    """The bound where both of its parts are seen: four directions from 3, a = 1/2, 10 steps, batches of 5."""
    return Check("bound on huber, a L = 0.5, 10 steps, batch 5", 4 * (0.9 + 0.05), _bound(*SHAPES["huber"], 0.5, 5, 10),
                 tolerance=1e-12, holds=example("R = 3 and s = 1 in each of four directions"))  # fmt: skip


def mean_gap(step: float, batch: int, steps: int) -> float:
    """E f at the mean of x_0 ... x_(T-1) on x^2 / 2 from 1, s = 1: the start and each draw by their sums of factors."""
    powers = (1 - step) ** np.arange(steps)
    return float(powers.mean() ** 2 + ((1 - powers) ** 2).sum() / (batch * steps**2)) / 2


def _averaged_gap(
    objective: Objective, distance: float, step: float, batch: int, settings: Settings, draws: np.random.Generator
) -> tuple[float, float]:
    """Loss at the mean of the iterates above the lowest, and its standard error."""
    shape = (settings.trials, objective.dimension)
    noise = SignNoise.of(batch**-0.5, shape, draws)
    x, total = np.full(shape, distance), np.zeros(shape)
    for _ in range(settings.steps):
        total += x
        x = x - step * (objective.gradient(x) + noise.draw())
    return mean_and_error(objective.loss(total / settings.steps))


def _floor(batch: int) -> float:
    """Stationary loss at a L = 1/2."""
    return float(stationary_variance(0.5, 1.0, 1 / batch)) / 2


def _floor_check(batch: int, settings: Settings, seed: int) -> Check:
    """The floor by law and by simulation."""
    mean, error = mean_and_error(settled(0.5, batch**-0.5, settings.trials, STEPS, seed=seed + batch))
    return Check(f"floor, batch {batch}, a L = 0.5", _floor(batch), mean, error, runs=settings.trials, holds=ALWAYS)


def _false_floors(floors: list[Check], settings: Settings, seed: int) -> list[Check]:
    """A floor that vanishes with the steps, that grows with the batch, and that knows mu but not L."""
    sizes = sorted(set(settings.batches))
    above, error = mean_and_error(settled(0.01, 1.0, settings.trials, STEPS, curvature=100.0, seed=seed))
    kicked = descend(np.ones(1), np.zeros((settings.trials, 1)), 0.5, noise_std=1.0, steps=1)
    few, many = floors[0], floors[-1]
    ratio, spread = quotient((many.got, many.standard_error), (few.got, few.standard_error))
    return [
        Check(f"noise term L s^2 / (2 B T), after {STEPS} steps", 1 / (2 * STEPS * sizes[0]), few.got,
              few.standard_error, relation="at most", false_law=True, holds=ALWAYS),
        Check("a s^2 / (2 mu) bounds the floor, L = mu = 100, a = 0.01", 0.01 / 200, above, error, relation="at most",
              false_law=True, holds=example("L = mu = 100, a = 0.01, batch 1")),
        Check("noise lowers the loss: change of f by a step from the optimum, a = 1/2", -0.375,
              float(kicked.losses[-1].mean()), relation="at most", false_law=True, holds=example("s = L = 1")),
        Check(f"noise grows with the batch: floor at {sizes[-1]} over that at {sizes[0]}", sizes[-1] / sizes[0],
              ratio, spread, tolerance=0.5, false_law=True, runs=settings.trials,
              holds=when(sizes[-1] >= 2 * sizes[0], "batch sizes that differ by a factor of 2 or more")),
    ]  # fmt: skip


def _false_laws() -> tuple[Check, ...]:
    """Printed bounds a L B s^2 / (2 (1 - a L)) + 2 L R^2 / T, on x^2 / 2 from 1 without noise."""
    *_, slow = distances(0.01, 10) ** 2 / 2
    *_, swinging = distances(2.0, steps=100) ** 2 / 2
    return (
        Check("the gap falls like 2 L R^2 / T at any step, a = 0.01 / L", 0.2, float(slow), relation="at most",
              false_law=True, holds=example("x^2 / 2 from 1, T = 10, no noise")),
        Check("a = 2 / L converges", 0.02, float(swinging), relation="at most", false_law=True,
              holds=example("x^2 / 2 from 1, T = 100, no noise")),
    )  # fmt: skip
