"""DiLoCo's outer update: what an outer rate and momentum do to rounds of local steps, exactly on a quadratic.

In a round of K local steps a direction of curvature h moves by s = 1 - (1 - a h)^K of its distance, so the outer update
sees a curvature s between 0 and 1:

    (x, b) -> (x - eta ((1 + mu) s x + mu^2 b), s x + mu b)      Nesterov: DiLoCo, eta = 0.7, mu = 0.9
    (x, b) -> (x - eta (s x + mu b), s x + mu b)                 heavy ball
    x -> (1 - s) x                                               averaging, eta = 1, mu = 0
The factor per round is the largest eigenvalue. Momentum helps the slow directions (s near 0) and costs the fast ones.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.settings import setting
from lockstep.learn.lab import Check, Curve, Domain, Findings, Law, Picture, Progress, watched, when
from lockstep.learn.lab.descent.delayed import growth
from lockstep.learn.lab.descent.workers import LocalMethod, run_rounds
from lockstep.learn.methods.local import Outer

QUESTION = "What does DiLoCo's outer momentum gain over plain averaging?"
SOURCE = "Douillard et al. 2023, algorithm 1; eigenvalues of a round"

ROUNDS = 400


@dataclass(frozen=True, slots=True)
class Settings:
    """The outer update and the inner steps."""

    rate: float = setting(0.7, "Outer learning rate eta.", above=0, most=2)
    momentum: float = setting(0.9, "Outer momentum mu.", least=0, most=0.99)
    period: int = setting(20, "Local steps K per round.", least=1, most=1000)
    step_size: float = setting(0.1, "Size of a local step; curvatures are at most 1.", above=0, below=1)
    curvatures: tuple[float, ...] = setting(
        (0.003, 0.01, 0.03, 0.1, 0.3, 1.0), "Curvatures of the directions.", above=0, most=1
    )
    workers: int = setting(8, "Number of workers, all with the same data.", least=2, most=256)


def run(settings: Settings, seed: int, progress: Progress) -> Findings:
    """Factor per round of three outer updates over the curvature."""
    updates = {
        "averaging": Outer(),
        "DiLoCo (Nesterov)": Outer(settings.rate, settings.momentum, nesterov=True),
        "heavy ball": Outer(settings.rate, settings.momentum),
    }
    curvatures = sorted(set(settings.curvatures))
    x = np.array(curvatures)
    checks, curves, laws = [], [], []
    for name, outer in watched(updates.items(), progress):
        shares = [1 - (1 - settings.step_size * h) ** settings.period for h in curvatures]
        largest = [_largest(outer, share) for share in shares]
        exact = np.abs(largest)
        path = run_rounds(
            lambda y: x * y, settings.workers, np.ones((1, len(x))), LocalMethod(settings.step_size, outer=outer),
            [settings.period] * ROUNDS,
        )  # fmt: skip
        found = np.array([growth(np.abs(path[:, 0, one])) for one in range(len(x))])
        checks += [
            Check(f"factor per round, {name}, curvature {h:g}", abs(law), float(got), tolerance=0.02, holds=_seen(law))
            for h, law, got in zip(curvatures, largest, found, strict=True)
        ]
        curves += [Curve(f"{name}, simulated", x, found, marks=True), Curve(f"{name}, exact", x, exact, theory=True)]
        laws += [
            Law(f"factor per round, {name}, curvature {h:g}", float(law), "largest eigenvalue", "one round is linear")
            for h, law in zip(curvatures, exact, strict=True)
        ]
    slow = {name: next(law.value for law in laws if name in law.name) for name in updates}
    return Findings(
        checks=tuple(checks),
        theory=tuple(laws),
        curves=tuple(curves),
        picture=Picture("curvature", "factor_per_round", log_x=True),
        conclusion=(
            f"the slowest direction shrinks by {slow['averaging']:.4g} per round when averaging and by "
            f"{slow['DiLoCo (Nesterov)']:.4g} with DiLoCo's outer update"
        ),
        assumptions=("equal workers, no noise: the inner steps are plain gradient steps",),
    )


def _largest(outer: Outer, share: float) -> complex:
    """Largest eigenvalue of one round on (x, b); `share` of the distance is done by the local steps."""
    eta, mu = outer.rate, outer.momentum
    ahead, carried = (1 + mu, mu**2) if outer.nesterov else (1.0, mu)
    matrix = np.array([[1 - eta * ahead * share, -eta * carried], [share, mu]])
    return complex(max(np.linalg.eigvals(matrix), key=abs))


def _seen(largest: complex) -> Domain:
    """Where the later half of a run swings often enough, or not at all, for its factor to be read."""
    swings = abs(np.angle(largest)) / np.pi * ROUNDS / 2
    return when(
        bool(swings == 0 or largest.real < 0 or swings >= 2), f"no oscillation longer than {ROUNDS // 4} rounds"
    )
