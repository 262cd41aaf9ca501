"""What happens to the noise when batch and learning rate grow together? Three rules and where they end.

    w <- w - alpha (lambda w + noise),  variance of the noise = sigma^2 ((1 - r) / B + r)
    stationary E w^2 = alpha Var / (lambda (2 - alpha lambda))      r = 0: alpha sigma^2 / (B lambda (2 - alpha lambda))
With k times the batch, alpha -> k alpha (linear) keeps the noise per unit of training time, alpha Var, and nearly the
stationary variance while alpha lambda is small; alpha -> sqrt(k) alpha keeps the noise of one step, alpha sqrt(Var),
and quiets the run. Nothing helps at k alpha lambda >= 2: the run diverges, after log(limit) / log|1 - alpha lambda|
steps. r: correlation between examples; with r > 0 the noise does not fall as 1 / B and the linear rule keeps nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from lockstep.errors import BadInput
from lockstep.lab import ALWAYS, Check, Curve, Findings, Law, Picture, Progress, mean_and_error, watched, when
from lockstep.lab.findings import absent, example, tells
from lockstep.lab.laws import stationary_variance
from lockstep.lab.statistics import quotient, streams
from lockstep.methods.learning_rate import RULES, rule
from lockstep.settings import setting
from lockstep.types.plain import Json

QUESTION = "What does each learning-rate scaling rule preserve when the batch size grows, and where does it fail?"
SOURCE = "Goyal et al. 2017; Krizhevsky 2014; Hoffer, Hubara, Soudry 2017; Mandt, Hoffman, Blei 2017"
DIVERGED = 1e12
"""Mean square that counts as divergence, over the larger of the start and the scale of the noise."""
SETTLED = 1e-6
"""Share of the start that is left when the variance is measured."""
LEAST_PRODUCT = 1e-3
LONGEST = math.ceil(math.log(SETTLED) / (2 * math.log(1 - LEAST_PRODUCT)))
"""Steps of the slowest run, in which one past the edge should diverge; nearer to the edge nothing is checked."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What is asked."""

    rate: float = setting(0.02, "Learning rate at batch size 1.", above=1e-4, below=2)
    curvature: float = setting(1.0, "Curvature lambda.", least=0.01, most=100)
    noise: float = setting(1.0, "Standard deviation sigma of the gradient of one example.", above=0, most=1e6)
    batches: tuple[float, ...] = setting(
        (1.0, 4.0, 16.0, 64.0, 128.0), "Batch sizes k, relative to batch size 1.", least=1, most=1e6
    )
    correlation: float = setting(
        0.05,
        "Correlation r of the gradients of different examples, for the checks of correlated examples.",
        least=0.04,
        below=1,
    )
    trials: int = setting(4000, "Simulated runs.", least=1000, most=100_000)


@dataclass(frozen=True, slots=True)
class Stay:
    """Where a run settles: E w^2 with its standard error, or the step at which it diverged."""

    variance: float
    standard_error: float
    diverged_at: int | None = None


def run(settings: Settings, seed: int, progress: Progress) -> Findings:
    """Stationary variance under every rule, by law and by simulation."""
    if settings.rate * settings.curvature < LEAST_PRODUCT:
        raise BadInput(
            f"rate x curvature must be at least {LEAST_PRODUCT:g}; below it runs do not become stationary", "--set rate"
        )
    rows: list[Json] = []
    checks: list[Check] = []
    cases = [(name, k) for name in RULES for k in settings.batches]
    for_kept, for_correlated, *draws = streams(seed, len(cases) + 2)
    for (name, k), draw in watched(zip(cases, draws, strict=True), progress):
        rate = float(rule(name)(settings.rate, k))
        expected = stationary(rate, settings.curvature, settings.noise**2 / k)
        seen = simulate(rate, settings.curvature, settings.noise**2 / k, settings.trials, draw)
        rows.append({"rule": name, "batch": k, "rate": rate, "variance": seen.variance if expected else None,
                     "variance_law": expected, "diverged_at_step": seen.diverged_at})  # fmt: skip
        checks.append(_check(name, k, expected, seen, rate * settings.curvature))
    checks += [*_kept(settings, for_kept), *_correlated(settings, for_correlated), _steep(seed)]
    edge = 2 / (settings.rate * settings.curvature)
    return Findings(
        checks=tuple(checks),
        theory=(
            Law("largest_batch_of_the_linear_rule", edge, "2 / (alpha lambda)", SOURCE),
            Law("stationary_variance", stationary(settings.rate, settings.curvature, settings.noise**2) or 0.0,
                "alpha sigma^2 / (B lambda (2 - alpha lambda))", SOURCE),
        ),
        rows=tuple(rows),
        curves=_curves(settings, rows, edge),
        picture=Picture("batch", "variance", log_x=True, log_y=True),
        conclusion="The linear rule keeps the variance until the rate nears the stability limit, and diverges from"
        f" {edge:.4g} times the batch size up; the square-root rule lowers the variance instead",
        assumptions=("one dimension, constant learning rate, normally distributed noise",),
    )  # fmt: skip


def stationary(rate: float, curvature: float, variance: float) -> float | None:
    """E w^2 in the long run; None past the edge."""
    found = float(stationary_variance(rate, curvature, variance))
    return found if math.isfinite(found) else None


def _growth(product: float) -> float:
    """Growth of log w^2 per step past the edge, where product = alpha lambda."""
    return 2 * math.log(max(product - 1, 1.0))


def simulate(rate: float, curvature: float, variance: float, trials: int, generator: np.random.Generator) -> Stay:
    """`trials` runs from 1 until the start is forgotten, or until the mean square passes the limit."""
    kept = min(max(abs(1 - rate * curvature), SETTLED), 1 - LEAST_PRODUCT)
    steps = math.ceil(math.log(SETTLED) / (2 * math.log(kept)))
    w, scale = np.ones(trials), rate * math.sqrt(variance)
    limit = DIVERGED * max(1.0, rate * variance / curvature)
    for at in range(steps):
        w *= 1 - rate * curvature
        w -= scale * generator.standard_normal(trials)
        if not float(w @ w) / trials < limit:
            return Stay(limit, 0.0, at + 1)
    mean, error = mean_and_error(w * w)
    return Stay(mean, error)


def _check(name: str, k: float, expected: float | None, seen: Stay, product: float) -> Check:
    fast = product <= 2 - LEAST_PRODUCT or _growth(product) * LONGEST > 2 * math.log(DIVERGED)
    told = when(fast, "a learning rate not so near the edge that a run takes too long to show its side")
    if expected is None:
        return Check(f"{name} rule, {k:g} times the batch: diverges (1 = yes)", 1.0,
                     float(seen.diverged_at is not None), holds=told)  # fmt: skip
    return Check(f"{name} rule, {k:g} times the batch: stationary variance", expected, seen.variance,
                 seen.standard_error, tolerance=SETTLED, holds=told)  # fmt: skip


def _kept(settings: Settings, draw: np.random.Generator) -> list[Check]:
    """What the rules keep of a step's noise, measured on means of 1 and of 16 examples, and what they do not."""
    k = 16
    single, *others = settings.noise * draw.standard_normal((k + 1, settings.trials))
    squared, error = quotient(mean_and_error(np.mean(others, axis=0) ** 2), mean_and_error(single**2))
    ratio, share = math.sqrt(squared), error / squared / 2
    linear, root = (float(rule(name)(1.0, k)) * ratio for name in ("linear", "square-root"))
    return [
        Check("linear rule: noise per training time, ratio", 1.0, linear**2 / k, 2 * share * linear**2 / k,
              holds=ALWAYS),
        Check("linear rule: noise of one step, ratio", 4.0, linear, linear * share, holds=ALWAYS),
        Check("square-root rule: noise of one step, ratio", 1.0, root, root * share, holds=ALWAYS),
        Check("the linear rule keeps the noise of one step: ratio", 1.0, linear, linear * share, false_law=True,
              holds=ALWAYS),
        Check("the linear rule keeps the signal-to-noise ratio of a step: "
              "ratio", 1.0, 1 / ratio, share / ratio, false_law=True,
              holds=ALWAYS),
    ]  # fmt: skip


def _steep(seed: int) -> Check:
    """Curvature and noise that are not 1."""
    seen = simulate(0.1, 4.0, 9.0, 2000, np.random.default_rng([seed, 1]))
    return Check("stationary variance of a steep direction", 0.1 * 9 / (4 * (2 - 0.4)), seen.variance,
                 seen.standard_error, tolerance=SETTLED, holds=example("alpha = 0.1, lambda = 4, s = 3"))  # fmt: skip


def _correlated(settings: Settings, draw: np.random.Generator) -> list[Check]:
    """Correlated examples: the variance has a part that no batch averages away."""
    k, base = 16.0, min(settings.rate, 0.05 / settings.curvature)
    variance = settings.noise**2 * ((1 - settings.correlation) / k + settings.correlation)
    rate = float(rule("linear")(base, k))
    one = stationary(base, settings.curvature, settings.noise**2)
    expected = stationary(rate, settings.curvature, variance)
    seen = simulate(rate, settings.curvature, variance, settings.trials, draw)
    names = (
        f"correlation {settings.correlation:g}, linear rule, 16 times the batch: stationary variance",
        "the linear rule keeps the variance even for correlated examples",
    )
    if one is None or expected is None:
        return [absent(name, "a rate x curvature that is stable at 16 times the batch") for name in names]
    return [
        Check(names[0], expected, seen.variance, seen.standard_error, tolerance=SETTLED, holds=ALWAYS),
        Check(names[1], one, seen.variance, seen.standard_error, tolerance=0.2 * one, false_law=True,
              holds=tells(expected, one, seen.standard_error, 0.2 * one)),
    ]  # fmt: skip


def _curves(settings: Settings, rows: list[Json], edge: float) -> tuple[Curve, ...]:
    """A line for every rule up to its edge, and the simulated points."""
    curves = []
    for name in RULES:
        fine = np.geomspace(min(settings.batches), max(settings.batches), 200)
        law = [stationary(float(rule(name)(settings.rate, k)), settings.curvature, settings.noise**2 / k) for k in fine]
        inside = np.array([one is not None for one in law])
        ends = None if inside.all() else edge
        values = np.array([one for one in law if one is not None])
        curves.append(Curve(f"{name} rule", fine[inside], values, theory=True, diverged_at=ends))
        seen = [row for row in rows if row["rule"] == name and row["diverged_at_step"] is None]
        points = np.array([(row["batch"], row["variance"]) for row in seen if row["variance"] is not None]).reshape(
            -1, 2
        )
        curves.append(Curve(f"{name}, simulated", points[:, 0], points[:, 1], marks=True))
    return tuple(curves)
