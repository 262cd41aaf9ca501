"""How many steps and examples does a batch size take? The hyperbola, and how far it holds over a whole run.

Steps to a target loss on a noisy quadratic are exact (`noisy_quadratic.py`) and every batch has its own best rate. The
hyperbola (`learn/methods/critical_batch.py`) is exact for one step; over a run the noise scale grows as the loss falls,
so it is fitted, and the fit's worst error is part of the answer. On n workers with b examples each the time to the
target stops falling near n = B_crit / b.
"""

from __future__ import annotations

import math

import numpy as np

from lockstep.base.records import dataclass, replace
from lockstep.base.settings import setting
from lockstep.base.types.arrays import Array
from lockstep.learn.lab import ALWAYS, Check, Curve, Domain, Findings, Law, Picture, Progress, watched, when
from lockstep.learn.lab.objectives.quadratic import NoisyQuadratic, power_law
from lockstep.learn.lab.statistics import Hyperbola, fit_hyperbola, mean_and_error
from lockstep.learn.methods import critical_batch as law

QUESTION = "How many steps and examples does each batch size need, and up to which one do larger batches pay?"
SOURCE = "McCandlish, Kaplan, Amodei 2018; Shallue et al. 2019; Zhang et al. 2019"
SPAN = 2.0 ** np.arange(-6, 7)
"""Batch sizes of the fit, as multiples of the power of two next to the critical one."""
ROUNDING = 1e-9
"""Share of a loss: tens of thousands of steps that each round a few times by 2^-53."""
SEARCH = 1e-3
"""Share of the fewest steps that the search for the best rate may miss."""
SHAPE = 0.30
"""Largest error of the hyperbola over a whole run that counts as agreement, as a share of the steps."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What is asked."""

    axes: int = setting(32, "Dimensions of the quadratic.", least=2, most=500)
    condition: float = setting(100.0, "Condition number: largest over smallest curvature.", least=10, most=1e4)
    noise: float = setting(
        1.0, "Variance of one example's gradient, as a multiple of the curvature.", above=0, most=1e6
    )
    target_frac: float = setting(0.01, "Loss to reach, as a fraction of the initial one.", least=1e-6, most=0.9)
    worker_batch: int = setting(4, "Examples per worker and step, for the time on n workers.", least=1, most=100_000)
    trials: int = setting(400, "Simulated runs per batch size that is checked.", least=20, most=20_000)


def run(settings: Settings, seed: int, progress: Progress) -> Findings:
    """Steps to the target over batch sizes at the best rate of each, the fitted hyperbola, a simulation of three."""
    problem = power_law(settings.axes, settings.condition, settings.noise)
    target = settings.target_frac * float(problem.expected_loss(0.0, 1.0, 1.0))
    batch, steps, rate = _sweep(problem, target, progress)
    fit = fit_hyperbola(batch, steps)
    rows = [
        {"batch": float(b), "steps": float(s), "examples": float(b * s), "rate": float(r),
         "steps_by_hyperbola": float(law.steps(b, fit.least_steps, fit.critical_batch)),
         "workers": float(b / settings.worker_batch)}
        for b, s, r in zip(batch, steps, rate, strict=True)
    ]  # fmt: skip
    whole = _whole(problem, target)
    checks = [
        *_sizes(problem, target, batch, steps),
        *_shape(problem, target, fit, whole),
        *_simulated(problem, batch, steps, rate, settings.trials, seed),
        *_noise(problem, target, fit, whole),
    ]
    low, high = fit.critical_batch_ci95
    return Findings(
        checks=tuple(checks),
        theory=(
            Law("critical_batch", fit.critical_batch, "fit of S = S_min (1 + B_crit / B)", SOURCE),
            Law("least_steps", fit.least_steps, "as above", SOURCE),
            Law("least_examples", fit.least_examples, "S_min B_crit", SOURCE),
        ),
        rows=tuple(rows),
        curves=_curves(batch, steps, fit),
        picture=Picture("examples", "steps", log_x=True, log_y=True),
        conclusion=f"Critical batch size {fit.critical_batch:.3g} (95 % interval {low:.3g} to {high:.3g}): below it "
        "larger batches save steps for few more examples, above it they save few steps; the hyperbola is up to "
        f"{fit.worst_frac:.0%} off over the run. At {settings.worker_batch} examples per worker, adding workers pays "
        f"up to about {max(fit.critical_batch / settings.worker_batch, 1):.0f}",
        assumptions=("the best constant learning rate for each batch size", "intervals from the residuals of the fit"),
    )


def _sweep(problem: NoisyQuadratic, target: float, progress: Progress) -> tuple[Array, Array, Array]:
    """(batch sizes, fewest steps, their rates) around the batch that takes twice the steps of an endless one."""
    batches = _batches(problem, target).tolist()
    found = [(batch, *problem.fewest_steps(target, batch)) for batch in watched(batches, progress)]
    batch, steps, rate = np.array(found).T
    return batch, steps, rate


def _batches(problem: NoisyQuadratic, target: float) -> Array:
    """Those of the sweep: none has less than an example."""
    endless, _ = problem.fewest_steps(target, math.inf)
    middle = float(1 / SPAN.min())
    while problem.fewest_steps(target, middle * math.sqrt(2))[0] > 2 * endless:
        middle *= 2
    return np.asarray(middle * SPAN)


def _sizes(problem: NoisyQuadratic, target: float, batch: Array, steps: Array) -> list[Check]:
    """The sweep goes from small batches to large ones around twice the least steps, down to one example at least."""
    quiet = replace(problem, noise=0 * problem.noise)
    above = float(batch[len(batch) // 2]) * math.sqrt(2)
    least, twice = (problem.fewest_steps(target, one)[0] for one in (math.inf, above))
    return [
        Check("largest ratio of steps of a batch to those of half of it", 1.0, float((steps[1:] / steps[:-1]).max()),
              tolerance=SEARCH, relation="at most", holds=ALWAYS),
        Check("half a power of two above the middle of the sweep: steps over the least", 2.0, twice / least,
              relation="at most", holds=ALWAYS),
        Check("smallest batch of the sweep without noise", 1.0, float(_batches(quiet, target).min()), holds=ALWAYS),
    ]  # fmt: skip


def _whole(problem: NoisyQuadratic, target: float) -> Domain:
    """Where there is a critical batch: no run has less than a step, no batch less than an example."""
    endless, single = (problem.fewest_steps(target, batch)[0] for batch in (1e12, 1.0))
    return when(
        endless >= 1 and single >= 2 * endless,
        "a target at least one step away, and noise that at least doubles the steps at batch size 1",
    )


def _shape(problem: NoisyQuadratic, target: float, fit: Hyperbola, whole: Domain) -> list[Check]:
    """What is left of the hyperbola over a whole run."""

    def steps(batch: float) -> float:
        return problem.fewest_steps(target, batch)[0]

    critical = fit.critical_batch
    return [
        Check("hyperbola over the run: largest error, as a fraction of the steps", 0.0, fit.worst_frac, tolerance=SHAPE,
              holds=whole),
        Check("B_crit / 16 instead of B_crit / 8: steps, ratio", 2.0, steps(critical / 16) / steps(critical / 8),
              tolerance=0.3, holds=whole),
        Check("16 B_crit instead of 8 B_crit: steps saved", 0.0, 1 - steps(16 * critical) / steps(8 * critical),
              tolerance=0.15, holds=whole),
        Check("time on B_crit / b workers over the least", 2.0, steps(critical) / steps(1e12), tolerance=2 * SHAPE,
              holds=whole),
    ]  # fmt: skip


def _simulated(problem: NoisyQuadratic, batch: Array, steps: Array, rate: Array, trials: int, seed: int) -> list[Check]:
    """Mean loss of runs against the expected loss, at the step where the target should be reached."""
    checks = []
    for place in (len(batch) // 2, 3 * len(batch) // 4, len(batch) - 1):
        generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(place,)))
        count, b, r = int(np.ceil(steps[place])), float(batch[place]), float(rate[place])
        mean, error = mean_and_error(problem.simulate(r, b, count, trials, generator))
        expected = float(problem.expected_loss(float(count), r, b))
        checks.append(Check(f"loss after {count} steps of {b:.3g} examples", expected, mean, error, ROUNDING * expected,
                            runs=trials, holds=ALWAYS))  # fmt: skip
    return checks


def _noise(problem: NoisyQuadratic, target: float, fit: Hyperbola, whole: Domain) -> list[Check]:
    """The critical batch is proportional to the noise; a formula without the noise cannot be right."""

    def steps(noise: float, batch: float) -> float:
        return replace(problem, noise=noise * problem.noise).fewest_steps(target, batch)[0]

    below = fit.critical_batch / 8
    return [
        Check("four times the noise and the batch: steps, ratio", 1.0, steps(4.0, 4 * below) / steps(1.0, below),
              tolerance=1e-9, holds=ALWAYS),
        Check("without noise: steps at batch size 1 over steps at a million", 1.0, steps(0.0, 1.0) / steps(0.0, 1e6),
              tolerance=1e-9, holds=ALWAYS),
        Check("B_crit = kappa^2 / epsilon, whatever the noise: steps at B_crit / 8 with four times the noise, ratio",
              1.0, steps(4.0, below) / steps(1.0, below), tolerance=0.1, false_law=True, holds=whole),
    ]  # fmt: skip


def _curves(batch: Array, steps: Array, fit: Hyperbola) -> tuple[Curve, ...]:
    """Steps over examples: found, fitted, and the two limits of the hyperbola."""
    fine = np.geomspace(batch[0], batch[-1], 100)
    line = law.steps(fine, fit.least_steps, fit.critical_batch)
    return (
        Curve("hyperbola, fitted", line * fine, line, theory=True),
        Curve("best constant learning rate", steps * batch, steps, marks=True),
        Curve(
            "at the critical batch size",
            np.array([2 * fit.least_examples]),
            np.array([2 * fit.least_steps]),
            marks=True,
        ),
    )
