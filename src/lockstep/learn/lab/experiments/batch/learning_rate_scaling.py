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
from collections.abc import Callable
from functools import partial

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.settings import setting
from lockstep.base.types.arrays import Array
from lockstep.base.types.plain import Json
from lockstep.learn.lab import ALWAYS, Check, Curve, Findings, Law, Picture, Progress, mean_and_error, watched, when
from lockstep.learn.lab.findings import absent, example, tells
from lockstep.learn.lab.laws import stationary_variance
from lockstep.learn.lab.statistics import quotient, streams
from lockstep.learn.methods.learning_rate import RULES, rule

QUESTION = "What does each learning-rate scaling rule preserve when the batch size grows, and where does it fail?"
SOURCE = "Goyal et al. 2017; Krizhevsky 2014; Hoffer, Hubara, Soudry 2017; Mandt, Hoffman, Blei 2017"
DIVERGED = 1e12
"""Mean square that counts as divergence, over the larger of the start and the scale of the noise."""
SETTLED = float(np.finfo(np.float32).eps)
"""Share of the start's square that is left when the variance is measured, about 1e-7."""
LARGER = 16
"""Times the batch in the checks of a step's noise and of correlated examples."""
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
        rate, expected, seen = _ruled(settings, name, k, draw)
        rows.append({"rule": name, "batch": k, "rate": rate, "variance": seen.variance if expected else None,
                     "variance_law": expected, "diverged_at_step": seen.diverged_at})  # fmt: skip
        checks += _check(settings, name, k, rate, expected, seen)
    checks += [*_kept(settings, for_kept), *_correlated(settings, for_correlated), *_other_problems(seed)]
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


def _ruled(settings: Settings, name: str, k: float, draw: np.random.Generator) -> tuple[float, float | None, Stay]:
    """Learning rate of a rule at k times the batch, the stationary variance by law, and what is simulated."""
    rate, std = float(rule(name)(settings.rate, k)), settings.noise / math.sqrt(k)
    noise = partial(_independent, std, settings.trials, draw)
    return rate, stationary(rate, settings.curvature, std**2), simulate(rate, settings.curvature, std, noise)


def _independent(std: float, trials: int, draw: np.random.Generator) -> Array:
    """Noise of one step, normally distributed."""
    return std * draw.standard_normal(trials)


def simulate(rate: float, curvature: float, std: float, noise: Callable[[], Array]) -> Stay:
    """Runs from 1 until the start is forgotten, or until the mean square passes the limit; a run per entry of noise."""
    kept = min(max(abs(1 - rate * curvature), SETTLED), 1 - LEAST_PRODUCT)
    steps = math.ceil(math.log(SETTLED) / (2 * math.log(kept)))
    w, limit = np.ones_like(noise()), _limit(rate, curvature, std)
    for at in range(steps):
        w -= rate * (curvature * w + noise())
        if not float((w * w).mean()) < limit:
            return Stay(limit, 0.0, at + 1)
    return Stay(*mean_and_error(w * w))


def _limit(rate: float, curvature: float, std: float) -> float:
    """Mean square from which on a run has diverged."""
    return DIVERGED * max(1.0, rate * std**2 / curvature)


def _check(settings: Settings, name: str, k: float, rate: float, expected: float | None, seen: Stay) -> list[Check]:
    product = rate * settings.curvature
    fast = product <= 2 - LEAST_PRODUCT or _growth(product) * LONGEST > 2 * math.log(DIVERGED)
    told = when(fast, "a learning rate not so near the edge that a run takes too long to show its side")
    what = f"{name} rule, {k:g} times the batch"
    if expected is None:
        return [Check(f"{what}: diverges (1 = yes)", 1.0, float(seen.diverged_at is not None), holds=told)]
    return [Check(f"{what}: stationary variance", expected, seen.variance, seen.standard_error, tolerance=SETTLED,
                  holds=told)]  # fmt: skip


def _kept(settings: Settings, draw: np.random.Generator) -> list[Check]:
    """What the rules keep of a step's noise, measured on means of 1 and of 16 examples, and what they do not."""
    k = LARGER
    single = settings.noise * draw.standard_normal(20 * settings.trials)
    mean = settings.noise * draw.standard_normal((k, 20 * settings.trials)).mean(axis=0)
    squared, of_square = quotient(mean_and_error(mean**2), mean_and_error(single**2))
    size, length = mean_and_error(np.abs(single)), mean_and_error(np.abs(mean))
    ratio, error = quotient(length, size)
    linear, root = (float(rule(name)(1.0, k)) for name in ("linear", "square-root"))
    per_time = linear**2 / k
    return [
        Check("linear rule: noise per training time, ratio", 1.0, per_time * squared, per_time * of_square,
              holds=ALWAYS),
        Check("linear rule: noise of one step, ratio", 4.0, linear * ratio, linear * error, holds=ALWAYS),
        Check("square-root rule: noise of one step, ratio", 1.0, root * ratio, root * error, holds=ALWAYS),
        Check("the linear rule keeps the noise of one step: ratio", 1.0, linear * ratio, linear * error,
              false_law=True, holds=ALWAYS),
        Check("the linear rule keeps the signal-to-noise ratio of a step: ratio", 1.0, *quotient(size, length),
              false_law=True, holds=ALWAYS),
    ]  # fmt: skip


def _other_problems(seed: int) -> list[Check]:
    """A direction that is flat, with noise far below the start; and a run that diverges from noise far above it."""
    flat, loud = Settings(rate=0.1, curvature=0.25, noise=0.01), Settings(rate=0.1, curvature=0.25, noise=1e6)
    _, _, seen = _ruled(flat, "linear", 4.0, np.random.default_rng([seed, 1]))
    _, _, gone = _ruled(loud, "linear", 100.0, np.random.default_rng([seed, 2]))
    # E w^2 = (1 + V) q^t - V with q = 1.5^2 and V = 10 * 1e10 / (0.25 * 0.5), up to 1e12 * 10 * 1e10 / 0.25.
    steps = math.log((1e12 * 4e11 + 8e11) / (1 + 8e11)) / math.log(1.5**2)
    return [
        Check("stationary variance of a flat direction", 0.4 * 0.005**2 / (0.25 * (2 - 0.1)), seen.variance,
              seen.standard_error, tolerance=SETTLED, holds=example("alpha = 0.4, lambda = 0.25, s = 0.005")),
        Check("step at which a loud run diverges", steps + 1 / 2, gone.diverged_at or math.inf, tolerance=0.6,
              holds=example("alpha = 10, lambda = 0.25, s = 1e5")),
    ]  # fmt: skip


def _correlated(settings: Settings, draw: np.random.Generator) -> list[Check]:
    """Correlated examples: the variance has a part that no batch averages away."""
    k, r = LARGER, settings.correlation
    rate, variance = float(rule("linear")(settings.rate, k)), settings.noise**2 * ((1 - r) / k + r)
    one = stationary(settings.rate, settings.curvature, settings.noise**2)
    expected = stationary(rate, settings.curvature, variance)
    names = (
        f"correlation {r:g}, linear rule, {LARGER} times the batch: stationary variance",
        "the linear rule keeps the variance even for correlated examples",
    )
    if one is None or expected is None:
        return [absent(name, f"a rate x curvature that is stable at {LARGER} times the batch") for name in names]

    def noise() -> Array:
        """Mean of the k examples of a step, of which each has a part that all share."""
        shared, own = draw.standard_normal(settings.trials), draw.standard_normal((k, settings.trials))
        mean: Array = settings.noise * (math.sqrt(r) * shared + math.sqrt(1 - r) * own.mean(axis=0))
        return mean

    seen = simulate(rate, settings.curvature, math.sqrt(variance), noise)
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
