"""How large a batch is one step worth? The gradient noise scale, exact, and measured without knowing the gradient.

    E gain of a step = alpha |G|^2 - alpha^2 / 2 (G'HG + tr(H Sigma) / B)
    best rate and best gain are 1 / (1 + B_noise / B) of those without noise,  B_noise = tr(H Sigma) / (G'HG)
    B_simple = tr(Sigma) / |G|^2                                two batches: |G|^2 and tr Sigma from |g_B|^2 at two B
The gain is simulated at the best learning rate of every batch. The two-batch estimates come with the interval of a
ratio of two means (delta method over the repetitions).
"""

from __future__ import annotations

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass, replace
from lockstep.base.settings import setting
from lockstep.base.types.plain import Json
from lockstep.learn.lab import ALWAYS, Check, Curve, Findings, Law, Picture, Progress, mean_and_error, watched, when
from lockstep.learn.lab.objectives import digits_logistic
from lockstep.learn.lab.objectives.quadratic import NoisyQuadratic, power_law
from lockstep.learn.lab.statistics import Ratio, ratio_of_means, streams
from lockstep.learn.methods import critical_batch as law

QUESTION = "How noisy is a gradient, how is the noise measured, and which batch size is a step worth?"
SOURCE = "McCandlish, Kaplan, Amodei 2018, section 2 and appendix A.1"
MOST_BATCHES = 1000
ROUNDING = 1e-12
"""Share of a sum of up to 500 squares, each rounded a few times by 2^-53."""
TOO_NOISY = "too large to measure with these batch sizes; use larger ones or more repetitions"
SPAN = 2.0 ** np.arange(-4, 5)


@dataclass(frozen=True, slots=True)
class Settings:
    """What is asked."""

    axes: int = setting(32, "Dimensions of the quadratic.", least=2, most=500)
    condition: float = setting(100.0, "Condition number: largest over smallest curvature.", least=1, most=1e4)
    noise: float = setting(1.0, "Variance of one example's gradient, the same in every direction.", above=0, most=1e6)
    small_batch: int = setting(4, "Smaller batch size of the estimator.", least=1, most=1_000_000)
    large_batch: int = setting(64, "Larger batch size of the estimator.", least=2, most=1_000_000)
    repetitions: int = setting(
        2000, "Number of pairs of batches, and of simulated steps per batch size.", least=100, most=100_000
    )


def run(settings: Settings, seed: int, progress: Progress) -> Findings:
    """Gains of one step over batch sizes, and both noise scales."""
    if settings.large_batch <= settings.small_batch:
        raise BadInput("must be above small_batch", "--set large_batch")
    problem = power_law(settings.axes, settings.condition, 0.0)
    problem = replace(problem, noise=np.full(settings.axes, settings.noise))
    noise_scale, simple = noise_scales(problem)
    *generators, last = streams(seed, len(SPAN) + 1)
    rows, checks = [], []
    for share, generator in watched(zip(SPAN, generators, strict=True), progress):
        batch = noise_scale * share
        gain, expected, error = _gain(problem, float(batch), noise_scale, settings.repetitions, generator)
        what = f"gain of one step at {share:g} B_noise over that without noise"
        checks.append(Check(what, expected, gain, error, holds=ALWAYS))
        rows.append({"batch": float(batch), "gain_frac": gain, "gain_ci95": [gain - 1.96 * error, gain + 1.96 * error],
                     "gain_law_frac": expected})  # fmt: skip
    measured, estimates = _two_batches(problem, settings, last)
    rounding = estimates[1].tolerance / estimates[0].expected
    checks.append(Check("B_simple from two batches", simple, measured.value, measured.standard_error, rounding,
                        holds=when(measured.known, "batch sizes and repetitions that resolve |G|^2")))  # fmt: skip
    digits = _on_digits(settings, np.random.default_rng([seed, 1]))
    checks += [*estimates, _blind(problem), _uneven(settings, np.random.default_rng([seed, 2])), digits]
    low, high = measured.interval()
    return Findings(
        checks=tuple(checks),
        theory=(
            Law("noise_scale", noise_scale, "tr(H Sigma) / G'HG", SOURCE),
            Law("simple_noise_scale", simple, "tr(Sigma) / |G|^2", SOURCE),
        ),
        rows=tuple(rows),
        curves=_curves(rows, noise_scale),
        picture=Picture("batch", "gain_frac", log_x=True),
        conclusion=f"Noise scale {noise_scale:.4g}; the simple one is {simple:.4g}, "
        + (f"measured {measured.value:.4g} (95 % interval {low:.4g} to {high:.4g})" if measured.known else TOO_NOISY),
        assumptions=("at the start of training; the noise scale grows as the loss falls",),
    )


def noise_scales(problem: NoisyQuadratic) -> tuple[float, float]:
    """(B_noise, B_simple) at the start, in examples."""
    curvature, gradient = problem.curvatures, problem.curvatures * problem.start
    exact = (curvature * problem.noise).sum() / (curvature * gradient**2).sum()
    return float(exact), float(problem.noise.sum() / (gradient**2).sum())


def _gain(
    problem: NoisyQuadratic, batch: float, noise_scale: float, draws: int, generator: np.random.Generator
) -> tuple[float, float, float]:
    """(mean gain of a step at the best rate, the law, its standard error), as shares of the best gain without noise."""
    w, h = problem.start, problem.curvatures
    gradient = h * w
    steep, bend = float(gradient @ gradient), float(h @ gradient**2)
    best_rate, best_gain = steep / bend, steep**2 / (2 * bend)
    frac = float(law.best_rate_frac(batch, noise_scale))
    after = w - best_rate * frac * problem.batch_gradients(w, batch, draws, generator)
    mean, error = mean_and_error((w**2 - after**2) @ h / 2 / best_gain)
    return mean, frac, error


def _two_batches(
    problem: NoisyQuadratic, settings: Settings, generator: np.random.Generator
) -> tuple[Ratio, list[Check]]:
    """B_simple from squared norms alone, and checks of its two parts."""
    squared = [
        (problem.batch_gradients(problem.start, batch, settings.repetitions, generator) ** 2).sum(axis=1)
        for batch in (settings.small_batch, settings.large_batch)
    ]
    parts = law.two_batch_estimate(squared[0], squared[1], settings.small_batch, settings.large_batch)
    exact = (float(((problem.curvatures * problem.start) ** 2).sum()), float(problem.noise.sum()))
    names = ("|G|^2 from two batches", "tr Sigma from two batches")
    checks = []
    small, large = settings.small_batch, settings.large_batch
    # Both squares round by that share of |G|^2, and the estimates are these differences of them.
    amplified = (large + small) / (large - small), 2 / (1 / small - 1 / large)
    tolerances = dict(zip(names, ROUNDING * exact[0] * np.array(amplified), strict=True))
    for name, want, values in zip(names, exact, parts, strict=True):
        checks.append(Check(name, want, *mean_and_error(values), tolerance=tolerances[name], holds=ALWAYS))
    return ratio_of_means(parts[1], parts[0]), checks


def _blind(problem: NoisyQuadratic) -> Check:
    """The simple scale is the exact one only when the Hessian is a multiple of the identity."""
    noise_scale, simple = noise_scales(problem)
    bent = when(float(np.ptp(problem.curvatures)) > 0, "a condition number above 1")
    return Check("B_simple = B_noise", noise_scale, simple, tolerance=1e-9 * noise_scale, false_law=True, holds=bent)


def _uneven(settings: Settings, generator: np.random.Generator) -> Check:
    """Noise that differs by direction, and is largest where the curvature is."""
    problem = power_law(settings.axes, settings.condition, 0.0)
    problem = replace(problem, noise=problem.curvatures)
    noise_scale, _ = noise_scales(problem)
    gain, expected, error = _gain(problem, noise_scale, noise_scale, settings.repetitions, generator)
    return Check("gain of one step at B_noise, noise in proportion to the curvature", expected, gain, error,
                 holds=ALWAYS)  # fmt: skip


def _on_digits(settings: Settings, generator: np.random.Generator) -> Check:
    """B_simple of logistic regression on the digits at its start: all gradients of single digits, and two batches."""
    whole = digits_logistic(side=4)
    w = np.zeros(whole.dimension)
    single = np.array([whole.part(np.array([one])).gradient(w) for one in range(len(whole.inputs))])
    mean = single.mean(axis=0)
    exact = float(((single - mean) ** 2).sum(axis=1).mean() / (mean @ mean))
    repetitions = min(settings.repetitions, MOST_BATCHES)
    squared = [
        np.array(
            [(single[generator.integers(len(single), size=size)].mean(axis=0) ** 2).sum() for _ in range(repetitions)]
        )
        for size in (4, 64)
    ]
    gradient_squared, trace = law.two_batch_estimate(squared[0], squared[1], 4, 64)
    found = ratio_of_means(trace, gradient_squared)
    return Check("B_simple on the digits from two batches", exact, found.value, found.standard_error, holds=ALWAYS)


def _curves(rows: list[Json], noise_scale: float) -> tuple[Curve, ...]:
    batch, gain = (np.array([row[key] for row in rows]) for key in ("batch", "gain_frac"))
    half = np.array([(row["gain_ci95"][1] - row["gain_ci95"][0]) / 2 for row in rows])
    fine = np.geomspace(batch[0], batch[-1], 100)
    return (
        Curve("1 / (1 + B_noise / B)", fine, law.best_rate_frac(fine, noise_scale), theory=True),
        Curve("simulated at the best learning rate", batch, gain, half_ci95=half, marks=True),
    )
