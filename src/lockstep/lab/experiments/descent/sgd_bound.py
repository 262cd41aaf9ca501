"""Synchronous descent on a convex loss: the bound on the averaged iterate, and the exact floor of the last one.

    E f(mean of x_0 ... x_(T-1)) - lowest <= R^2 / (2 a T) + a s^2 / (2 B)      for a <= 1 / L
    f = L x^2 / 2: stationary E f = a s^2 / (2 B (2 - a L))
R distance of the start, s^2 variance of one sample's gradient, B samples of a batch. Refuted: noise that grows with the
batch, a S L B s^2 / (2 (1 - a L)) with a step up to 2 / L, a speed that does not depend on the step, a noise term that
vanishes with T or knows mu and not L, and a descent inequality in which noise helps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from lockstep.lab import ALWAYS, Check, Curve, Findings, Law, Picture, Progress, example, mean_and_error, when
from lockstep.lab.descent.delayed import descend
from lockstep.lab.laws import stationary_variance
from lockstep.lab.objectives import LANDSCAPES, Objective, Quadratic
from lockstep.lab.statistics import SignNoise
from lockstep.settings import setting

QUESTION = "Which loss does synchronous SGD guarantee, for which step size and batch size?"
SOURCE = "expand |x - x*|^2 and sum; Lan 2012, Bubeck 2015 theorem 6.3"


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
    shapes: dict[str, tuple[Objective, float]] = {
        "quadratic": (Quadratic(np.ones(1), np.zeros(1)), 1.0),
        "huber": (LANDSCAPES["huber"], 3.0),
    }
    checks, curves, place = [], [], 0
    sizes, batches = sorted(set(settings.steps_of_smoothness)), sorted(set(settings.batches))
    for name, (objective, distance) in shapes.items():
        for batch in batches:
            gaps, bounds, halves = [], [], []
            for step in sizes:
                place += 1
                gap, error = _averaged_gap(objective, distance, step, batch, settings, [seed, place])
                reach = objective.dimension
                bounds.append(reach * (distance**2 / (2 * step * settings.steps) + step / (2 * batch)))
                gaps.append(gap)
                halves.append(1.96 * error)
                checks.append(Check(f"gap on {name}, batch {batch}, a L = {step:g}", bounds[-1], gap, error,
                                    relation="at most", runs=settings.trials, holds=ALWAYS))  # fmt: skip
                progress(place, len(shapes) * len(sizes) * len(batches))
            if name == "quadratic":
                x = np.array(sizes)
                curves.append(Curve(f"batch {batch}, simulated", x, np.array(gaps), np.array(halves), marks=True))
                curves.append(Curve(f"batch {batch}, bound", x, np.array(bounds), theory=True))
    floors = [_floor_check(batch, settings, seed) for batch in batches]
    return Findings(
        checks=(*checks, *floors, *_false_floors(floors, settings), *_false_laws()),
        theory=tuple(
            Law(f"floor, batch {batch}, a L = 0.5", _floor(batch), "a s^2 / (2 B (2 - a L))", "stationary variance")
            for batch in sorted(set(settings.batches))
        ),
        curves=tuple(curves),
        picture=Picture("step_size_times_smoothness", "gap", log_x=True, log_y=True),
        conclusion="a small step is slow, a large one leaves more noise; the noise falls as 1 / batch size",
        assumptions=(
            "s = 1 and L = 1 in every direction; the quadratic starts at 1, Huber's loss at 3 in four directions",
        ),
    )  # fmt: skip


def _averaged_gap(
    objective: Objective, distance: float, step: float, batch: int, settings: Settings, seed: list[int]
) -> tuple[float, float]:
    """Loss at the mean of the iterates above the lowest, and its standard error."""
    shape = (settings.trials, objective.dimension)
    noise = SignNoise.of(batch**-0.5, shape, np.random.default_rng(seed))
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
    made = descend(np.ones(1), np.zeros((settings.trials, 1)), 0.5, noise_std=batch**-0.5, steps=400,
                   record_every=10, first_record=50, seed=seed + batch)  # fmt: skip
    mean, error = mean_and_error(made.losses.mean(axis=0))
    return Check(f"floor, batch {batch}, a L = 0.5", _floor(batch), mean, standard_error=error, runs=settings.trials,
                 holds=ALWAYS)  # fmt: skip


def _false_floors(floors: list[Check], settings: Settings) -> list[Check]:
    """A floor that vanishes with the steps, that grows with the batch, and that knows mu but not L."""
    sizes = sorted(set(settings.batches))
    steep = descend(np.full(1, 100.0), np.zeros((settings.trials, 1)), 0.01, noise_std=1.0, steps=400,
                    record_every=10, first_record=50)  # fmt: skip
    above, error = mean_and_error(steep.losses.mean(axis=0))
    kicked = descend(np.ones(1), np.zeros((settings.trials, 1)), 0.5, noise_std=1.0, steps=1)
    found = [
        Check("noise term L s^2 / (2 B T), after 400 steps", 1 / (800 * sizes[0]), floors[0].got,
              floors[0].standard_error, relation="at most", false_law=True, holds=ALWAYS),
        Check("a s^2 / (2 mu) bounds the floor, L = mu = 100, a = 0.01", 0.01 / 200, above, error, relation="at most",
              false_law=True, holds=example("L = mu = 100, a = 0.01, batch 1")),
        Check("noise lowers the loss: change of f by a step from the optimum, a = 1/2", -0.375,
              float(kicked.losses[-1].mean()), relation="at most", false_law=True, holds=example("s = L = 1")),
    ]  # fmt: skip
    few, many = floors[0], floors[-1]
    times, ratio = sizes[-1] / sizes[0], many.got / few.got
    spread = ratio * math.hypot(few.standard_error / few.got, many.standard_error / many.got)
    found.append(Check(f"noise grows with the batch: floor at {sizes[-1]} over that at {sizes[0]}", times,
                       ratio, spread, tolerance=0.5, false_law=True, runs=settings.trials,
                       holds=when(times >= 2, "batch sizes that differ by a factor of 2 or more")))  # fmt: skip
    return found


def _false_laws() -> tuple[Check, ...]:
    """Printed bounds a L B s^2 / (2 (1 - a L)) + 2 L R^2 / T, on x^2 / 2 from 1 without noise."""
    slow = descend(np.ones(1), np.ones((1, 1)), 0.01, steps=10)
    swinging = descend(np.ones(1), np.ones((1, 1)), 2.0, steps=100)
    return (
        Check("the gap falls like 2 L R^2 / T at any step, a = 0.01 / L", 0.2, float(slow.losses[-1, 0]),
              relation="at most", false_law=True, holds=example("x^2 / 2 from 1, T = 10, no noise")),
        Check("a = 2 / L converges", 0.02, float(swinging.losses[-1, 0]), relation="at most", false_law=True,
              holds=example("x^2 / 2 from 1, T = 100, no noise")),
    )  # fmt: skip
