"""Delays without a bound: no constant step is safe for them, a step that adapts to each delay is.

A constant step of 1 / L diverges once the delay is 2: the largest root is 1.151 there. When some worker is very late
again and again, the constant step that is safe for the longest delay is slow and 1 / L diverges; the factor
min(1, 1 / (a L (1 + tau))) on each update shrinks only the late ones. Refuted: that 1 / L gives O(1 / T) at any delay.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.settings import setting
from lockstep.base.types.arrays import Array
from lockstep.learn.lab import ALWAYS, Check, Curve, Findings, Law, Picture, Progress, example, watched
from lockstep.learn.lab.descent.delayed import factor, follow
from lockstep.learn.lab.descent.updates import asynchronous, worker_times_s
from lockstep.learn.lab.laws import largest_stable_step, rate
from lockstep.learn.lab.objectives import Quadratic, spectrum
from lockstep.learn.methods.staleness import delay_adaptive
from lockstep.simulate.play import Pareto

QUESTION = "Which step size remains stable when delays are unbounded?"
SOURCE = "Koloskova, Stich and Jaggi 2022; Mishchenko, Bach, Even and Woodworth 2022"

DIMENSION = 20


@dataclass(frozen=True, slots=True)
class Settings:
    """Workers with heavy-tailed times, and the problem."""

    workers: int = setting(8, "Number of workers, all equally fast on average.", least=2, most=256)
    shape: float = setting(
        1.3, "Shape of the Pareto law of a worker's times; below 2 its variance is infinite.", above=1, most=10
    )
    condition: float = setting(20.0, "Condition number; the largest curvature is 1.", above=1, most=1e4)
    updates: int = setting(6000, "Updates in a run.", least=1000, most=200_000)


def run(settings: Settings, seed: int, progress: Progress) -> Findings:
    """Three ways to choose the step on one schedule."""
    times_s = worker_times_s(Pareto(1.0, settings.shape), np.ones(settings.workers), settings.updates,
                             np.random.default_rng(seed))  # fmt: skip
    made = asynchronous(times_s)
    read, delay = made.read[: settings.updates], made.delay[: settings.updates].astype(float)
    longest = int(delay.max())
    objective = Quadratic(spectrum("logarithmic", DIMENSION, settings.condition), np.zeros(DIMENSION))
    adaptive = delay_adaptive(delay, 1.0, 1.0)
    steps: dict[str, Array | float] = {
        "constant 1 / L": 1.0,
        f"constant, safe for the longest delay {longest}": largest_stable_step(longest) / 2,
        "adapted to every delay": adaptive,
    }
    curves = []
    start = np.ones((1, DIMENSION))
    for label, step in watched(steps.items(), progress):
        found = follow(read, objective.gradient, objective.loss, start, step)
        curves.append(Curve.until_divergence(label, found.steps.astype(float), found.losses[:, 0]))
    _, safe, adapted = curves
    (*_, waited), (*_, ended) = safe.y.tolist(), adapted.y.tolist()
    roots = _root_checks()
    return Findings(
        checks=(
            *roots,
            Check("adapted steps beside the smaller of 1 / L and 1 / (L (1 + delay)), largest difference", 0.0,
                  float(np.abs(adaptive - np.minimum(1, 1 / (1 + delay))).max()), tolerance=1e-12, holds=ALWAYS),
            Check("loss at the end, adapted step", waited, ended, relation="at most",
                  holds=ALWAYS),
            Check("1 / L converges at any delay", 1.0, float(min(one.got for one in roots) < 1), false_law=True,
                  holds=example("delays of 2, 4 and 8")),
        ),
        theory=tuple(
            Law(f"factor per step at a = 1/L, delay {tau}", rate(1.0, tau), "largest |z|", "learn/lab/laws.py")
            for tau in (2, 4, 8)
        ),
        curves=tuple(curves),
        picture=Picture("updates", "loss", log_y=True),
        conclusion=(
            f"delays: mean {delay.mean():.3g}, longest {longest}; after {settings.updates} updates the adapted step "
            f"reaches a loss of {adapted.y[-1]:.2g}, the constant safe step {safe.y[-1]:.2g}"
        ),
        assumptions=("no gradient noise; times of all workers from one Pareto law",),
    )  # fmt: skip


def _root_checks() -> list[Check]:
    """The growth at a = 1 / L and fixed delays, run, beside the largest root."""
    found = []
    for delay in (2, 4, 8):
        what = f"factor per step at a = 1 / L, delay {delay}"
        found.append(
            Check(
                what,
                rate(1.0, delay),
                factor(1.0, delay),
                tolerance=5e-3,
                holds=example("one direction of curvature L"),
            )
        )
    return found
