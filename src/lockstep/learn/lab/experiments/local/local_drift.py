"""How far workers drift apart in K local steps, and what their average inherits.

    spread of the workers around their mean, per direction   a^2 s^2 (1 - 1/n) q,   q = (1 - r^(2K)) / (1 - r^2)
    variance of the mean                                     a^2 s^2 q / n,         r = 1 - a h
With h = 0, q = K. Different optima add a drift that is no noise: a^2 h^2 (sum_k r^k)^2 times their variance. The spread
saturates with the number of workers. Gradients of at most G lead at most a K G away. Refuted: that it grows like
sqrt(n), that it falls like 1 / n, that noise leads a s K away (a s sqrt(K)).
"""

from __future__ import annotations

import math

import numpy as np

from lockstep.base.records import dataclass, replace
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
from lockstep.learn.lab.statistics import SignNoise, quotient

QUESTION = "How far do workers drift apart between two averaging steps?"
SOURCE = "sums of independent steps"
TELLING = 16
"""Most over fewest workers: the spread grows less than twofold between them, where sqrt(n) says fourfold."""


@dataclass(frozen=True, slots=True)
class Settings:
    """One round from a common start."""

    workers: tuple[int, ...] = setting((2, 4, 16, 64, 256), "Numbers of workers.", least=2, most=4096)
    period: int = setting(10, "Local steps K between averages.", least=1, most=10_000)
    step_size: float = setting(0.1, "Size of a local step.", above=0, most=10)
    curvature: float = setting(0.0, "Curvature of all workers.", least=0, most=10)
    noise_std: float = setting(1.0, "Standard deviation of the gradient noise.", above=0, most=100)
    optimum_std: float = setting(
        0.0,
        "Standard deviation of the workers' optima, which stands for how different their data are.",
        least=0,
        most=100,
    )
    trials: int = setting(4000, "Independent rounds.", least=100, most=1_000_000)


def run(settings: Settings, seed: int, progress: Progress) -> Findings:
    """Spread and variance of the mean over the number of workers."""
    numbers = sorted(set(settings.workers))
    spreads, expected, checks = [], [], []
    for place, workers in enumerate(watched(numbers, progress)):
        ends = _round(settings, workers, np.random.default_rng([seed, place]))
        spreads.append(mean_and_error(ends.var(axis=0)))
        expected.append(sum(_laws(settings)) * (1 - 1 / workers))
        checks.append(Check(f"spread, n = {workers}", expected[-1], *spreads[-1], holds=ALWAYS))
        checks.append(Check(f"variance of the mean, n = {workers}", sum(_laws(settings)) / workers,
                            *mean_and_error(ends.mean(axis=0) ** 2), holds=ALWAYS))  # fmt: skip
    x = np.array(numbers, dtype=float)
    seen, errors = np.array(spreads).T
    return Findings(
        checks=(*checks, *_false_laws(numbers, spreads), *_over_the_period(settings, numbers, seed), _pulled(seed)),
        theory=tuple(
            Law(f"spread, n = {workers}", value, "a^2 s^2 q (1 - 1/n) + drift", SOURCE)
            for workers, value in zip(numbers, expected, strict=True)
        ),
        curves=(
            Curve("simulated", x, seen, half_ci95=1.96 * errors, marks=True),
            Curve("a^2 K s^2 (1 - 1/n), with curvature and drift", x, np.array(expected), theory=True),
        ),
        picture=Picture("workers", "spread", log_x=True),
        conclusion=f"the spread is {seen[0]:.3g} with {numbers[0]} workers and {seen[-1]:.3g} with {numbers[-1]}",
        assumptions=(
            "one direction, one round from a common start; optima normally distributed, redrawn in every trial",
        ),
    )


def _round(settings: Settings, workers: int, generator: np.random.Generator) -> np.ndarray:
    """Ends of the workers, (workers, trials)."""
    shape = (workers, settings.trials)
    noise = SignNoise.of(settings.noise_std, shape, generator)
    optima = settings.optimum_std * generator.standard_normal(shape)
    x = np.zeros(shape)
    for _ in range(settings.period):
        x = x - settings.step_size * (settings.curvature * (x - optima) + noise.draw())
    return x


def _laws(settings: Settings) -> tuple[float, float]:
    """Variance of one worker's end by noise and by its own optimum."""
    shrink = 1 - settings.step_size * settings.curvature
    powers = shrink ** np.arange(settings.period)
    noise = (settings.step_size * settings.noise_std) ** 2 * float((powers**2).sum())
    drift = (settings.step_size * settings.curvature * settings.optimum_std * float(powers.sum())) ** 2
    return noise, drift


def _false_laws(workers: list[int], spreads: list[tuple[float, float]]) -> tuple[Check, ...]:
    """Growth like sqrt(n) and decay like 1 / n, between the fewest and the most workers."""
    (first, *_), (*_, last), (few, *_), (*_, many) = spreads, spreads, workers, workers
    ratio, error = quotient(last, first)
    change, slack = many / few, 0.2 * ratio
    apart = when(change >= TELLING, f"numbers of workers that differ by a factor of {TELLING} or more")
    return (
        Check("the spread grows like sqrt(n)", change**0.5, ratio, error, slack, false_law=True, holds=apart),
        Check("the spread falls like 1 / n", 1 / change, ratio, error, slack, false_law=True, holds=apart),
    )


def _over_the_period(settings: Settings, workers: list[int], seed: int) -> tuple[Check, ...]:
    """Steps of at most a G lead at most a K G away, but noise only a s sqrt(K)."""
    free = when(not settings.curvature, "curvature 0, so that nothing pulls workers back")
    few, *_ = workers
    ends = [_round(replace(settings, period=k), few, np.random.default_rng([seed, -1 % 2**32, k]))
            for k in (settings.period, 4 * settings.period)]  # fmt: skip
    short, long = (mean_and_error(one**2) for one in ends)
    farthest = settings.step_size * settings.period * settings.noise_std
    ratio, error = quotient(long, short)
    return (
        Check("largest distance of a worker from the start, at most a K G", farthest, float(np.abs(ends[0]).max()),
              tolerance=1e-12 * farthest, relation="at most", holds=free),
        Check("drift of 4 K steps over that of K, squared", 4.0, ratio, error, holds=free),
        Check("noise drifts like K: squared drift of 4 K steps over that of K", 16.0, ratio, tolerance=4.0,
              false_law=True, holds=free),
    )  # fmt: skip


def _pulled(seed: int) -> Check:
    """Workers with a curvature and optima of their own."""
    bent = Settings(curvature=2.0, optimum_std=1.5, noise_std=3.0)
    ends = _round(bent, 8, np.random.default_rng([seed, -2 % 2**32]))
    law = sum(_laws(bent)) * 7 / 8
    # That of the variance of 8 normal ends; one that the run itself had would excuse ends that are far off.
    error = law * math.sqrt(2 / 7 / bent.trials)
    return Check("spread under curvature and unequal optima", law, float(ends.var(axis=0).mean()), error,
                 holds=example("8 workers, h = 2, s = 3, optima 1.5"))  # fmt: skip
