"""Steps against examples on a real network: the hyperbola measured on digits, and the noise scale that predicts it.

    S = S_min (1 + B_crit / B)       E = S B                    fitted, with its interval
    B_simple = sum tr(Sigma) / sum |G|^2                 over the steps of the run with all examples
    best rate(B) = best rate(all) / (1 + B_simple / B)
To second order and with one curvature h, a constant rate a gains a sum |G|^2 - a^2 h / 2 sum (|G|^2 + tr(Sigma) / B),
most at a rate 1 / (1 + B_simple / B) of that without noise, and then as much less; so B_crit is about B_simple. The
scale with the Hessian in it is no better here: it depends on how hard the run bounces at the edge of stability. The
rate is tuned for each batch on a grid around that law; the steps to a training loss are counted when all starts are
there. Refuted: that steps fall as 1 / B without limit, that the best rate is linear in B without limit, that it is the
same for all B.

Source: McCandlish, Kaplan, Amodei, "An empirical model of large-batch training", 2018, sections 2.2 and 2.3; the
method of tuning and counting: Shallue et al., "Measuring the effects of data parallelism", 2019.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import count as counted
from itertools import takewhile

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.settings import setting
from lockstep.base.types.arrays import Array
from lockstep.base.types.plain import Json
from lockstep.learn.lab import ALWAYS, Check, Curve, Findings, Law, Picture, Progress, watched, when
from lockstep.learn.lab.findings import CREDIBLE_ERRORS
from lockstep.learn.lab.objectives import Perceptron, digits_perceptron
from lockstep.learn.lab.statistics import Hyperbola, fit_hyperbola, mean_and_error
from lockstep.learn.methods import critical_batch as law
from lockstep.simulate.play.sample import student_t

QUESTION = "How many steps does a network need at each batch size, and does the noise scale predict it?"
SOURCE = "McCandlish, Kaplan, Amodei 2018, sections 2.2 and 2.3; Shallue et al. 2019"
FACTOR = 3.0
"""Between the fitted critical batch and the noise scale; the source finds them "within a small factor"."""
RATES = np.geomspace(FACTOR**-1.5, FACTOR**1.5, 9)
"""Rates tried, as multiples of the law's, and of 1 with all examples; wider than `FACTOR`, so that the law can fail."""
SPACING = math.log(RATES[1] / RATES[0])
"""Of the logarithms of tried rates: the quotient of two best ones is not known better, as each may miss by a half."""
SHAPE = 0.30
"""Largest error of the hyperbola over a whole run that counts as agreement, as a share of the steps."""
DENSE = 32
"""The loss is looked at after every step up to this one, then after a share 1 / `DENSE` more, and interpolated."""
ROUNDING = 1e-9
"""Share of a sum over examples in another order."""
WIDEST = 32
"""Hidden units; with 64 the best rate with all examples, 1.13, is below that with 128 of them, 1.29."""
LEAST_STEPS = 10
"""With all examples; a loss that fewer steps reach is decided by the start of the run, not by its noise."""
MOST_STEPS = 20_000


@dataclass(frozen=True, slots=True)
class Settings:
    """What is asked."""

    batches: tuple[int, ...] = setting(
        (1, 2, 4, 8, 16, 32, 64, 128), "Batch sizes; the full batch is always included.", least=1, most=1024
    )
    target: float = setting(0.3, "Training loss to reach; guessing among ten classes gives 2.3.", least=0.1, most=1.5)
    examples: int = setting(512, "Number of training digits.", least=256, most=1797)
    hidden: int = setting(32, "Number of hidden units.", least=4, most=64)
    starts: int = setting(4, "Random initializations, each with its own order of examples.", least=2, most=50)


@dataclass(frozen=True, slots=True)
class Tuned:
    """The best constant rate of one batch size, and the logarithms of the steps that it takes from each start."""

    batch: int
    rate: float
    logs: Array

    @property
    def steps(self) -> float:
        """Geometric mean of the starts."""
        return math.exp(self.logs.mean())

    @property
    def error(self) -> float:
        """Standard error of the logarithm of the steps."""
        return mean_and_error(self.logs)[1]

    @property
    def ci95(self) -> tuple[float, float]:
        """Of the steps."""
        widen = math.exp(student_t(0.975, len(self.logs) - 1) * self.error)
        return self.steps / widen, self.steps * widen


def run(settings: Settings, seed: int, progress: Progress) -> Findings:
    """Fewest steps over batch sizes, the fitted hyperbola, and the noise scale along the run with all examples."""
    batches = sorted(set(settings.batches))
    if len(batches) < 4 or batches[-1] > settings.examples // 2:
        raise BadInput(f"needs at least 4 batch sizes, each at most {settings.examples // 2}", "--set batches")
    network = digits_perceptron(settings.hidden, settings.examples)
    starts = np.array([network.start(seed * settings.starts + one) for one in range(settings.starts)])
    generator = np.random.default_rng([seed, 1])
    everything = _tuned(network, starts, settings.examples, RATES, settings.target, generator)
    paths = [_path(network, one, everything.rate, settings.target) for one in starts]
    noise_scale = _noise_scale(network, paths)

    def tuned(batch: int) -> Tuned:
        rates = everything.rate * float(law.best_rate_frac(batch, noise_scale)) * RATES
        return _tuned(network, starts, batch, rates, settings.target, generator)

    found = [*(tuned(batch) for batch in watched(batches, progress)), everything]
    fit = fit_hyperbola(np.array([one.batch for one in found]), np.array([one.steps for one in found]))
    low, high = fit.critical_batch_ci95
    return Findings(
        checks=(
            *_checks(found, fit, noise_scale, settings.hidden),
            *_followed(network, starts[0], everything.rate, settings.target, generator),
            _first_step(network, starts[0], everything.rate, generator),
            _noise_by_examples(network, paths[0]),
            _number_of_looks(),
        ),
        theory=(
            Law("noise_scale", noise_scale, "sum tr(Sigma) / sum |G|^2 over the full-batch run", SOURCE),
            Law("critical_batch", fit.critical_batch, "fit of S = S_min (1 + B_crit / B)", SOURCE),
            Law("least_steps", fit.least_steps, "as above", SOURCE),
        ),
        rows=tuple(_row(one, everything, fit, noise_scale) for one in found),
        curves=_curves(found, fit, noise_scale),
        picture=Picture("examples", "steps", log_x=True, log_y=True),
        conclusion=f"Critical batch size {fit.critical_batch:.3g} (95 % interval {low:.3g} to {high:.3g}); the noise "
        f"scale predicts {noise_scale:.3g}. The hyperbola is up to {fit.worst_frac:.0%} off",
        assumptions=(
            f"a constant learning rate per batch size, the best of {len(RATES)} spaced by a factor of "
            f"{math.exp(SPACING):.2f}",
            f"{settings.starts} initializations; intervals from the residuals of the fit",
        ),
    )


def _tuned(
    network: Perceptron, starts: Array, batch: int, rates: Array, target: float, generator: np.random.Generator
) -> Tuned:
    """The rate at which all starts arrive first, and their steps."""
    logs = np.log(_arrivals(network, starts, batch, rates, target, generator).reshape(len(starts), len(rates)))
    best = int(logs.mean(axis=0).argmin())
    return Tuned(batch, float(rates[best]), logs[:, best])


def _arrivals(
    network: Perceptron, starts: Array, batch: int, rates: Array, target: float, generator: np.random.Generator
) -> Array:
    """Steps to the target of all starts with all rates, starts first; infinite for those still on their way."""
    weights = np.repeat(starts, len(rates), axis=0)
    rate = np.tile(rates, len(starts))[:, np.newaxis]
    arrived = np.full(len(weights), np.inf)
    before, seen, looks = network.loss(weights), 0, _looks()
    look = next(looks)
    for step in counted(1):
        if step > MOST_STEPS:
            raise BadInput(
                f"is not reached within {MOST_STEPS:,} steps at batch size {batch}; use a larger target", "--set target"
            )
        part = network
        if batch < len(network.inputs):
            drawn = generator.integers(len(network.inputs), size=(len(starts), batch))
            part = network.part(np.repeat(drawn, len(rates), axis=0))
        weights = weights - rate * part.gradient(weights)
        if step < look:
            continue
        loss = network.loss(weights)
        new = (loss <= target) & np.isinf(arrived)
        share = np.log(before[new] / target) / np.log(before[new] / loss[new])
        arrived[new] = seen + share * (step - seen)
        if np.isfinite(arrived.reshape(len(starts), len(rates))).all(axis=0).any():
            break
        before, seen, look = loss, step, next(looks)
    return arrived


def _looks() -> Iterator[int]:
    """Steps after which the loss is looked at."""
    step = 1
    while True:
        yield step
        step += 1 + step // DENSE


def _number_of_looks() -> Check:
    """`DENSE` / k looks in the k-th stretch of `DENSE` steps."""
    expected = DENSE * float(np.sum(1 / np.arange(1, MOST_STEPS // DENSE + 1)))
    found = sum(1 for _ in takewhile(lambda step: step <= MOST_STEPS, _looks()))
    return Check("steps of the longest run after which the loss is looked at", expected, found, tolerance=DENSE / 4,
                 holds=ALWAYS)  # fmt: skip


def _path(network: Perceptron, start: Array, rate: float, target: float) -> list[Array]:
    """Weights before each step of a run with all examples, up to the step that reaches the target."""
    path = [start]
    while float(network.loss(after := path[-1] - rate * network.gradient(path[-1]))) > target:
        path.append(after)
    return path


def _noise_scale(network: Perceptron, paths: list[list[Array]]) -> float:
    """B_simple: tr(Sigma) over |G|^2, each summed over the steps of the runs."""
    noise, square = np.sum([_noise_and_square(network, one) for path in paths for one in path], axis=0)
    return float(noise / square)


def _noise_and_square(network: Perceptron, weights: Array) -> tuple[float, float]:
    """(tr Sigma, |G|^2): the first is the mean square of one example's gradient less that of the mean."""
    square = float((network.gradient(weights) ** 2).sum())
    return float(network.squared_norms(weights).mean()) - square, square


def _noise_by_examples(network: Perceptron, path: list[Array]) -> Check:
    """The noise scale of a run against one from the gradient of every example, with nothing reused."""
    size = len(network.inputs)
    one_by_one, noise, square = network.part(np.arange(size)[:, np.newaxis]), 0.0, 0.0
    for weights in path:
        single = one_by_one.gradient(np.broadcast_to(weights, (size, weights.size)))
        noise += float(single.var(axis=0).sum())
        square += float(single.mean(axis=0) @ single.mean(axis=0))
    return Check("noise scale of a run, over that from the gradients of single examples", 1.0,
                 _noise_scale(network, [path]) / (noise / square), tolerance=ROUNDING, holds=ALWAYS)  # fmt: skip


def _followed(
    network: Perceptron, start: Array, fastest: float, target: float, generator: np.random.Generator
) -> Iterator[Check]:
    """Runs with all examples looked at after every step, the second slow: where the log loss passes the target."""
    for name, rate, interpolated in (("a run", fastest, 1 / DENSE), ("a slow run", fastest / 8, 3e-3)):
        path = _path(network, start, rate, target)
        last = path[-1]
        before, after = (math.log(float(network.loss(one))) for one in (last, last - rate * network.gradient(last)))
        steps = len(path) - 1 + (before - math.log(target)) / (before - after)
        (found,) = _arrivals(network, start[np.newaxis], len(network.inputs), np.array([rate]), target, generator)
        yield Check(f"steps of {name} with all examples, of one looked at after every step", 1.0, float(found / steps),
                    tolerance=ROUNDING if steps <= DENSE else interpolated, holds=ALWAYS)  # fmt: skip


def _first_step(network: Perceptron, start: Array, rate: float, generator: np.random.Generator) -> Check:
    """A target halfway between the logarithms of the loss before and after the first step."""
    losses = [float(network.loss(one)) for one in (start, start - rate * network.gradient(start))]
    size, target = len(network.inputs), math.sqrt(math.prod(losses))
    (found,) = _arrivals(network, start[np.newaxis], size, np.array([rate]), target, generator)
    falls = when(losses[1] < losses[0], "a first step after which the loss is lower")
    return Check("steps to a loss halfway through the first step", 0.5, float(found), tolerance=ROUNDING, holds=falls)


def _checks(found: list[Tuned], fit: Hyperbola, noise_scale: float, hidden: int) -> list[Check]:
    """The shape, its prediction, and three rules that hold nowhere near the critical batch."""
    first, *_, last = found
    times = last.batch / first.batch
    law_of_rates = float(law.best_rate_frac(first.batch, noise_scale) / law.best_rate_frac(last.batch, noise_scale))
    fall = math.log(last.steps / first.steps)
    wide = math.log(FACTOR)
    long = when(last.steps >= LEAST_STEPS, f"targets that all examples reach in {LEAST_STEPS} steps or more")
    noisy = long & when(hidden <= WIDEST, f"at most {WIDEST} hidden units: in wider networks the edge of stability, "
                        "not the noise, limits the full-batch learning rate")  # fmt: skip
    scatter = math.sqrt(np.mean([one.error**2 for one in found]))
    known = long & when(CREDIBLE_ERRORS * scatter <= SHAPE, "initializations that agree well enough: a standard error "
                        f"of the steps of at most {SHAPE / CREDIBLE_ERRORS:.1%}")  # fmt: skip
    small = when(
        times >= 16 and first.batch <= noise_scale / 4,
        "a smallest batch of at most 1/16 of the examples and 1/4 of the noise scale",
    )
    return [
        Check("distance of the tried rates from that of the law, logarithm", 0.0, float(np.abs(np.log(RATES)).min()),
              tolerance=ROUNDING, holds=ALWAYS),
        Check("hyperbola: largest error, as a fraction of the "
              "steps", 0.0, fit.worst_frac, tolerance=SHAPE, holds=known),
        Check("log of the fitted critical batch over the noise scale", 0.0, math.log(fit.critical_batch / noise_scale),
              tolerance=wide, holds=long),
        Check(f"log of the best rate at batch size {first.batch} over that of the full batch", math.log(law_of_rates),
              math.log(first.rate / last.rate), tolerance=wide + SPACING, holds=noisy),
        Check("log of full-batch steps over those of the smallest batch, by the noise scale",
              math.log(law_of_rates), fall, tolerance=wide, holds=long),
        Check("steps fall as 1 / B without limit: log of full-batch steps over those of the smallest batch",
              -math.log(times), fall, tolerance=wide, false_law=True, holds=small),
        Check("linear rule without limit: log of the best full-batch rate over that of the smallest batch",
              math.log(times), math.log(last.rate / first.rate), tolerance=wide, false_law=True, holds=small),
        Check("one rate for all batches: best rate of the smallest batch over that of the full batch", 1.0,
              first.rate / last.rate, tolerance=0.5, false_law=True, holds=small),
    ]  # fmt: skip


def _row(tuned: Tuned, everything: Tuned, fit: Hyperbola, noise_scale: float) -> Json:
    return {
        "batch": tuned.batch, "steps": tuned.steps, "ci95": list(tuned.ci95),
        "examples": tuned.batch * tuned.steps,
        "steps_by_hyperbola": float(law.steps(tuned.batch, fit.least_steps, fit.critical_batch)),
        "rate": tuned.rate,
        "rate_law": everything.rate * float(law.best_rate_frac(tuned.batch, noise_scale)),
    }  # fmt: skip


def _curves(found: list[Tuned], fit: Hyperbola, noise_scale: float) -> tuple[Curve, ...]:
    """Steps over examples: measured, fitted, and as the noise scale predicts them."""
    batch = np.array([float(one.batch) for one in found])
    steps = np.array([one.steps for one in found])
    half = np.array([(one.ci95[1] - one.ci95[0]) / 2 for one in found])
    fine = np.geomspace(batch[0], batch[-1], 100)
    fitted = law.steps(fine, fit.least_steps, fit.critical_batch)
    predicted = law.steps(fine, found[-1].steps, noise_scale)
    return (
        Curve("hyperbola, fitted", fitted * fine, fitted, theory=True),
        Curve("from the noise scale and the full-batch steps", predicted * fine, predicted, theory=True),
        Curve("best constant learning rate", steps * batch, steps, half_ci95=half, marks=True),
        Curve(
            "at the critical batch size",
            np.array([2 * fit.least_examples]),
            np.array([2 * fit.least_steps]),
            marks=True,
        ),
    )
