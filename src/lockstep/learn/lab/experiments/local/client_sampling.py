"""FedAvg with sampling: m of n workers take part in a round, and what their choice costs.

With one curvature and optima b_i, a round maps x to q x + (1 - q) (mean b of those present), q = (1 - a h)^K. So x
never settles; around the optimum its variance is

    (1 - q) / (1 + q) * V (n - m) / ((n - 1) m),      V the variance of the b_i (divided by n)
More local steps make it larger, since each round runs further towards those present. Refuted: that only the share m / n
matters.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.settings import setting
from lockstep.learn.lab import ALWAYS, Check, Curve, Findings, Law, Picture, Progress, mean_and_error, watched
from lockstep.learn.lab.descent.workers import LocalMethod, run_rounds

FORMULA = "(1 - q) / (1 + q) V (n - m) / ((n - 1) m)"
QUESTION = "What does partial participation of workers in a round cost?"
SOURCE = "sampling without replacement and a first-order recursion"
FEWEST_ROUNDS, RELAXATIONS = 60, 8


@dataclass(frozen=True, slots=True)
class Settings:
    """Workers and rounds."""

    workers: int = setting(40, "Total number of workers.", least=2, most=1000)
    participants: tuple[int, ...] = setting(
        (1, 2, 5, 10, 20, 40), "Numbers of workers that participate in a round.", least=1, most=1000
    )
    period: int = setting(5, "Local steps K per round.", least=1, most=1000)
    step_size: float = setting(0.1, "Step size, for a curvature of 1.", least=0.01, below=1)
    trials: int = setting(300, "Independent runs.", least=10, most=100_000)


def run(settings: Settings, seed: int, progress: Progress) -> Findings:
    """Variance around the optimum over the number of participants."""
    numbers = sorted({min(number, settings.workers) for number in settings.participants})
    optima = np.random.default_rng(seed).standard_normal(settings.workers)
    optima -= optima.mean()
    moved = 1 - (1 - settings.step_size) ** settings.period
    settling = max(FEWEST_ROUNDS, int(RELAXATIONS / moved))
    found, halves, exact, checks = [], [], [], []
    for place, number in enumerate(watched(numbers, progress)):
        exact.append(_variance(optima, number, settings))
        path = run_rounds(
            lambda y: y - optima[:, None, None], settings.workers, np.zeros((settings.trials, 1)),
            LocalMethod(settings.step_size, participants=number), [settings.period] * 2 * settling, seed=seed + place,
        )  # fmt: skip
        mean, error = mean_and_error((path[settling::10, :, 0] ** 2).mean(axis=0))
        found.append(mean)
        halves.append(1.96 * error)
        checks.append(Check(f"variance, {number} of {settings.workers} participating", exact[-1], mean, error,
                            tolerance=1e-12, runs=settings.trials, holds=ALWAYS))  # fmt: skip
    half = _variance(optima, settings.workers // 2, settings)
    twice = _variance(np.tile(optima, 2), settings.workers, settings)
    x = np.array(numbers, dtype=float)
    return Findings(
        checks=(
            *checks,
            Check("the fraction alone matters: half of 2 n over half of n", 1.0, twice / half, tolerance=0.1,
                  false_law=True, holds=ALWAYS),
        ),
        theory=tuple(
            Law(f"variance, {number} participating", value, FORMULA, SOURCE)
            for number, value in zip(numbers, exact, strict=True)
        ),
        curves=(
            Curve("simulated", x, np.array(found), half_ci95=np.array(halves), marks=True),
            Curve("exact", x, np.array(exact), theory=True),
        ),
        picture=Picture("participants", "squared_distance", log_x=True),
        conclusion=(
            f"with {numbers[0]} of {settings.workers} workers participating the variance is {found[0]:.3g}, with all "
            "of them 0"
        ),
        assumptions=(
            "equal curvature, no gradient noise",
            "participants are drawn without replacement, independently in every round",
        ),
    )  # fmt: skip


def _variance(optima: np.ndarray, number: int, settings: Settings) -> float:
    """Stationary variance around the mean optimum."""
    workers = len(optima)
    keep = (1 - settings.step_size) ** settings.period
    of_mean = float(optima.var()) * (workers - number) / ((workers - 1) * number)
    return (1 - keep) / (1 + keep) * of_mean
