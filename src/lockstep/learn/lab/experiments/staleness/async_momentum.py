"""Momentum and old gradients: each is harmless at a step at which both together diverge, and how to correct it.

On a quadratic of curvature 1 at a = 0.05, beta = 0.9, tau = 10: heavy ball without delay converges, the delay without
momentum converges, both diverge. Corrections: the step times (1 - beta), which compares at the same effective step
a / (1 - beta) and costs only a factor 1.31 of stability; or no explicit momentum, since a delay is some already.
Refuted: the printed limits tau < (1 - beta) / (a lambda (1 + beta)) and 1 / (a lambda (1 - beta)), and that heavy ball
tuned for quadratics converges wherever the curvature lies between mu and L.
"""

from __future__ import annotations

import math

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.settings import setting
from lockstep.learn.lab import ALWAYS, Check, Curve, Findings, Law, Picture, Progress, example, watched
from lockstep.learn.lab.descent.delayed import distances, factor, growth
from lockstep.learn.lab.laws import largest_stable_step, rate

QUESTION = "Why can momentum with stale gradients diverge where each alone converges?"
SOURCE = "roots of z^(tau+1) - (1 + beta) z^tau + beta z^(tau-1) + a lambda"
LAW_SOURCE = "largest root of the delayed recursion (learn/lab/laws.py)"


@dataclass(frozen=True, slots=True)
class Settings:
    """One point: step, momentum, delay."""

    step_size: float = setting(0.05, "Step size, for a curvature of 1.", above=0, below=2)
    momentum: float = setting(0.9, "Heavy-ball momentum beta.", above=0, most=0.98)
    delay: int = setting(
        10, "Delay of a gradient, in updates between reading the parameters and applying it.", least=1, most=200
    )
    steps: int = setting(400, "Steps of a run.", least=400, most=100_000)


def run(settings: Settings, seed: int, progress: Progress) -> Findings:
    """Four runs from 1, and the rates at which they shrink or grow."""
    a, beta, tau = settings.step_size, settings.momentum, settings.delay
    variants = {
        "momentum, no delay": (a, 0, beta),
        "delay, no momentum": (a, tau, 0.0),
        "delay and momentum": (a, tau, beta),
        "delay and momentum, step times (1 - momentum)": (a * (1 - beta), tau, beta),
    }
    curves, checks, laws = [], [], []
    for label, (step, delay, momentum) in watched(variants.items(), progress):
        size = distances(step, settings.steps, delay, momentum)
        curves.append(Curve.until_divergence(label, np.arange(len(size), dtype=float), size, limit=1e6))
        expected = rate(step, delay, momentum)
        checks.append(Check(f"factor per step, {label}", expected, growth(size), tolerance=0.01, holds=ALWAYS))
        laws.append(Law(f"factor per step, {label}", expected, "largest |z|", LAW_SOURCE))
    return Findings(
        checks=(*checks, *_limits()),
        theory=tuple(laws),
        curves=tuple(curves),
        picture=Picture("step", "distance", log_y=True),
        conclusion=_conclusion(tau, beta),
        assumptions=("one direction of curvature 1, no noise; the sum form of momentum, v <- beta v + g",),
    )


def _conclusion(tau: int, beta: float) -> str:
    alone = largest_stable_step(0) / largest_stable_step(tau)
    with_momentum = largest_stable_step(tau) / largest_stable_step(tau, beta)
    effective = largest_stable_step(tau) / (largest_stable_step(tau, beta) / (1 - beta))
    return (
        f"a delay of {tau} alone makes the largest stable step {alone:.3g} times smaller, adding momentum {beta:g} "
        f"another {with_momentum:.3g} times, but at the same effective step only {effective:.3g} times"
    )


def _limits() -> tuple[Check, ...]:
    """Where the printed limit is wrong, found by running: beta = 0.9, tau = 1 and beta = 0, tau = 5."""
    # 0.08 * 1 is above the printed limit (1 - 0.9) / (1 + 0.9), so the run should grow.
    near, wild = factor(0.08, delay=1, momentum=0.9), factor(0.05, delay=10, momentum=0.9)
    what = "diverges beyond tau = (1 - beta) / (a lambda (1 + beta))"
    edge = "largest step, momentum 0.9, delay 10, over that without either"
    ratio = largest_stable_step(0, 0.9) / largest_stable_step(10, 0.9)
    return (
        Check("factor per step, momentum 0.9, delay 1, a = 0.08", math.sqrt(0.9 + 0.08), near, tolerance=1e-3,
              holds=example("z^2 - 1.9 z + 0.9 + 0.08 has a pair of complex roots")),
        Check(what, 1.0, float(near > 1), false_law=True, holds=example("a = 0.08, momentum 0.9, delay 1")),
        Check(f"{edge}: the published 380", 380.0, ratio, tolerance=10.0, false_law=True,
              holds=example("momentum 0.9, delay 10")),
        Check("stable while tau < 1 / (a lambda (1 - beta)): a = 0.05, beta = 0.9, delay 10", 1.0,
              float(wild < 1), false_law=True, holds=example("a = 0.05, momentum 0.9, delay 10")),
        Check("factor per step, momentum 0.9, delay 10, a = 0.05", rate(0.05, 10, 0.9), wild, tolerance=1e-4,
              holds=example("a = 0.05, momentum 0.9, delay 10")),
        Check("gradient of curvature 1 between 1 and 2 and of 25 elsewhere: sum at 0.999, 1, 1.999, 2 and 3",
              24.975 + 25 + 25.999 + 26 + 51, sum(map(_kinked, (0.999, 1.0, 1.999, 2.0, 3.0))), tolerance=1e-9,
              holds=example("Lessard, Recht and Packard 2016, section 4.6")),
        Check("heavy ball tuned for quadratics converges on every strongly convex loss", 0.0, _cycling(),
              tolerance=0.1, false_law=True,
              holds=example("curvature 1 or 25, a = 1/9, momentum 4/9; Lessard, Recht and Packard 2016, section 4.6")),
    )  # fmt: skip


def _cycling() -> float:
    """|x| after many steps of heavy ball on a loss of curvature 1 or 25 with a = 1/9, beta = 4/9, from 3.3.

    Its gradient is 25 x below 1, x + 24 up to 2 and 25 x - 24 above; Lessard, Recht, Packard 2016, section 4.6.
    """
    before = now = 3.3
    for _ in range(3000):
        before, now = now, now - _kinked(now) / 9 + 4 / 9 * (now - before)
    return max(abs(now), abs(before))


def _kinked(x: float) -> float:
    """The gradient of that loss."""
    return 25 * x if x < 1 else x + 24 if x < 2 else 25 * x - 24
