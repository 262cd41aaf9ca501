"""The floor that gradient noise leaves under a delay: exact by Lyapunov, simulated, and what is printed about it.

One direction of curvature lambda, step a = 1 / (2 lambda (1 + tau)): the floor falls with the delay because the step
does. At one step the delay raises it by less than 1.69, and slows no flat direction. Refuted: the floor
2 a^2 L^2 (1 + tau)^2 s^2 / mu, whose units are wrong and which small steps break; (1 + tau)^2 times the noise; a floor
that grows with the delay when the step follows it.
"""

from __future__ import annotations

import math

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
from lockstep.learn.lab.descent.delayed import settled
from lockstep.learn.lab.laws import floor, largest_stable_step, rate

QUESTION = "How does a delay change the floor that gradient noise leaves?"
SOURCE = "discrete Lyapunov equation; Arjevani, Shamir and Srebro 2020; Stich and Karimireddy 2020"

CONTINUOUS_LIMIT = (1 + np.sin(0.5)) / np.cos(0.5)
"""Floor with delay over floor without, for a mu tau = 1/2 and small steps (the delayed equation in continuous time)."""
SLOW = 0.01
"""Curvature of a flat direction, of the largest."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Delays and the size of the simulation."""

    delays: tuple[int, ...] = setting(
        (0, 1, 2, 5, 10, 20),
        "Delays of a gradient, in updates between reading the parameters and applying it.",
        least=0,
        most=50,
    )
    noise_std: float = setting(1.0, "Standard deviation of the gradient noise.", above=0, most=1e6)
    trials: int = setting(2000, "Independent runs.", least=10, most=100_000)


def run(settings: Settings, seed: int, progress: Progress) -> Findings:
    """Floors at a = 1 / (2 (1 + tau)) with lambda = 1."""
    delays = sorted(set(settings.delays))
    exact, found, half, plain, checks = [], [], [], [], []
    for place, delay in enumerate(watched(delays, progress)):
        step = 1 / (2 * (1 + delay))
        exact.append(floor(step, 1.0, delay, noise_std=settings.noise_std))
        plain.append(floor(step, 1.0, 0, noise_std=settings.noise_std))
        # Half of the steps are enough to leave the root of the last digit of a start.
        steps = math.ceil(math.log(np.finfo(float).eps) / math.log(rate(step, delay)))
        losses = settled(step, settings.noise_std, settings.trials, steps, delay=delay, seed=seed + place)
        mean, error = mean_and_error(2 * losses)
        found.append(mean)
        half.append(1.96 * error)
        checks.append(Check(f"floor of E x^2, delay {delay}", exact[-1], mean, standard_error=error,
                            runs=settings.trials, holds=ALWAYS))  # fmt: skip
    ratios = np.array(exact) / np.array(plain)
    checks.append(
        Check("floor with delay / without", CONTINUOUS_LIMIT, float(ratios.max()), relation="at most", holds=ALWAYS)
    )
    x = np.array(delays, dtype=float)
    return Findings(
        checks=(*checks, *_slow_roots(delays), _false_floor(settings.noise_std), *_false_growth(delays, exact, ratios)),
        theory=tuple(
            Law(f"floor, delay {delay}", value, "P = A P A' + Q", "discrete Lyapunov equation (learn/lab/laws.py)")
            for delay, value in zip(delays, exact, strict=True)
        ),
        curves=(
            Curve("simulated", x, np.array(found), half_ci95=np.array(half), marks=True),
            Curve("Lyapunov", x, np.array(exact), theory=True),
            Curve("the same step without delay: a s^2 / (lambda (2 - a lambda))", x, np.array(plain), theory=True),
        ),
        picture=Picture("delay_steps", "squared_distance", log_y=True),
        conclusion=f"at the same step size, a delay raises the floor by a factor of at most {ratios.max():.3g}",
        assumptions=(
            "one direction of curvature 1 and a step of 1 / (2 (1 + delay))",
            "two-point noise: floors depend on its variance only",
        ),
    )


def _slow_roots(delays: list[int]) -> list[Check]:
    """A delay does not slow down a flat direction: its root is 1 - a mu at most."""
    steps = [SLOW * largest_stable_step(delay) for delay in delays]
    excess = max(rate(step, delay) - (1 - step) for step, delay in zip(steps, delays, strict=True))
    known = 1.0
    for _ in range(20):  # of r = 1 - p / r^5, which is r^6 - r^5 + p = 0
        known = 1 - 0.01 / 12 / known**5
    return [
        Check("slow root minus 1 - a mu, largest over all delays", 0.0, excess, tolerance=1e-12, relation="at most",
              holds=ALWAYS),
        Check("slow root at a delay of 5, mu = 0.01", known, rate(SLOW / 12, 5), tolerance=1e-12,
              holds=example("a = 1 / 12")),
    ]  # fmt: skip


def _false_growth(delays: list[int], exact: list[float], ratios: np.ndarray) -> list[Check]:
    """(1 + tau)^2 times the noise at one step, and a floor that grows when the step follows the delay."""
    apart = when(delays[0] == 0 and delays[-1] >= 2, "delays that include 0 and one of 2 or more")
    square = float(1 + delays[-1]) ** 2
    return [
        Check(f"a delay of {delays[-1]} leaves (1 + tau)^2 times the noise", square, float(ratios[-1]), tolerance=1.0,
              false_law=True, holds=apart),
        Check("the floor at a = 1 / (2 L (1 + tau)) grows with the delay", 1.0, exact[-1] / exact[0],
              relation="at least", false_law=True, holds=apart),
    ]  # fmt: skip


def _false_floor(noise_std: float) -> Check:
    """2 a^2 L^2 (1 + tau)^2 s^2 / mu as an upper bound, at a small step without delay."""
    step = 0.001
    printed = 2 * step**2 * noise_std**2
    what = "floor 2 a^2 L^2 (1 + tau)^2 s^2 / mu is an upper bound, a = 0.001"
    return Check(what, printed, floor(step, 1.0, 0, noise_std=noise_std), relation="at most", false_law=True,
                 holds=example("no delay, s as set"))  # fmt: skip
