"""Where gradient descent with an unbiased compressor stops converging: at 1 + omega times smaller steps.

On f = |x|^2 / 2, x <- x - a C(x) with E |C(x)|^2 = (1 + omega) |x|^2:

    E |x+|^2 / |x|^2 = 1 - 2 a + a^2 (1 + omega)             stable for a < 2 / (1 + omega), fastest at half of it
    n ranks with independent draws on the same gradient: omega / n instead of omega
Random-k meets omega = d / k - 1 with equality for every x. Refuted beside it: that an unbiased compressor keeps the
rate of plain descent at the same step, and the descent inequality without the term (a^2 L / 2) |grad|^2.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.settings import setting
from lockstep.base.types.arrays import Array
from lockstep.learn.lab import ALWAYS, Check, Curve, Findings, Law, Picture, Progress, example, tells, watched, when
from lockstep.learn.lab.descent.delayed import distances
from lockstep.learn.lab.statistics import mean_and_error, quotient, streams
from lockstep.learn.methods.compression import RandomK, exchange

QUESTION = "How much smaller must the step be with an unbiased compressor?"
SOURCE = "Alistarh et al. 2017, theorem 3.2; exact for random-k on an isotropic quadratic"

PRINTED_STEPS = (0.1, 0.19, 0.2, 0.5, 1.0)
"""Steps of the worked example with d = 100, k = 10."""


@dataclass(frozen=True, slots=True)
class Settings:
    """A quadratic of curvature 1 in all directions, and random-k."""

    elems: int = setting(100, "Dimensions of the quadratic.", least=2, most=10_000)
    keep_frac: float = setting(0.1, "Fraction of the entries that random-k keeps.", above=0, most=1)
    ranks: tuple[int, ...] = setting((1, 4, 16), "Numbers of ranks, which draw independently.", least=1, most=64)
    draws: int = setting(
        400, "Number of single steps from the same point, per number of ranks.", least=20, most=100_000
    )
    steps: int = setting(60, "Steps of the runs that test convergence.", least=10, most=1000)


def run(settings: Settings, seed: int, progress: Progress) -> Findings:
    """The factor of one step over the step size, and whole runs beside it."""
    made = RandomK(settings.keep_frac)
    omega = made.variance_factor(settings.elems) or 0.0
    sizes = np.linspace(0.02, 1.2, 30)
    checks: list[Check] = []
    curves: list[Curve] = []
    for ranks in watched(sorted(set(settings.ranks)), progress):
        drawn = _draws(made, settings, ranks, seed)
        seen = np.array([drawn.factor(size) for size in sizes])
        curves.append(Curve(f"{ranks} ranks, law", sizes, _factor(sizes, omega / ranks), theory=True))
        curves.append(Curve(f"{ranks} ranks, measured", sizes, seen[:, 0], half_ci95=1.96 * seen[:, 1], marks=True))
        for step in PRINTED_STEPS:
            what, law = f"factor of one step, a = {step:g}, {ranks} ranks", float(_factor(step, omega / ranks))
            checks.append(Check(what, law, *drawn.factor(step), tolerance=1e-12, runs=settings.draws, holds=ALWAYS))
        edge, error = quotient((2.0, 0.0), mean_and_error(drawn.squared))
        checks.append(Check(f"largest stable step, {ranks} ranks", 2 / (1 + omega / ranks), edge, error, 1e-9,
                            runs=settings.draws, holds=ALWAYS))  # fmt: skip
    return Findings(
        checks=(*checks, *_runs(made, settings, omega, seed), *_false_laws(made, settings, omega, seed)),
        theory=(
            Law("largest stable step", 2 / (1 + omega), "2 / (L (1 + omega))", "E |C(x)|^2 = (1 + omega) |x|^2"),
            Law("fastest step", 1 / (1 + omega), "1 / (L (1 + omega))", "as above"),
            Law("best factor", 1 - 1 / (1 + omega), "1 - 1 / (1 + omega)", "as above; plain descent: 0"),
        ),
        curves=tuple(curves),
        picture=Picture("step_size", "squared_distance_factor"),
        conclusion=f"omega = {omega:g}: the step must stay below {2 / (1 + omega):.3g}, where plain descent allows 2",
        assumptions=("curvature 1 in every direction; no gradient noise",),
    )


def _factor(step: Any, omega: float) -> Any:
    """E |x+|^2 / |x|^2."""
    return 1 - 2 * step + step**2 * (1 + omega)


@dataclass(frozen=True, slots=True, eq=False)
class Draws:
    """Updates u drawn at one point x: u . x and |u|^2 of each draw, over |x|^2."""

    along: Array
    squared: Array

    def factor(self, step: float) -> tuple[float, float]:
        """Mean of |x - a u|^2 / |x|^2, and its standard error."""
        return mean_and_error(1 - 2 * step * self.along + step**2 * self.squared)


def _start(settings: Settings) -> Array:
    """The point from which single steps are drawn."""
    return np.linspace(0.5, 1.5, settings.elems)


def _draws(made: RandomK, settings: Settings, ranks: int, seed: int) -> Draws:
    """What `ranks` workers send from the same point, `settings.draws` times."""
    point = _start(settings)
    generators = streams(seed, ranks)
    updates = np.array(
        [exchange(made, [point] * ranks, [None] * ranks, generators).mean for _ in range(settings.draws)]
    )
    return Draws(updates @ point / (point @ point), (updates**2).sum(axis=1) / (point @ point))


def _runs(made: RandomK, settings: Settings, omega: float, seed: int) -> tuple[Check, ...]:
    """Below the edge a run shrinks, at the step where plain descent needs one step it grows."""
    shrunk = _log_growth(made, settings, 1 / (1 + omega), seed)
    grown = _log_growth(made, settings, 1.0, seed)
    return (
        Check("fastest step shrinks", 1.0, float(shrunk < 0), holds=ALWAYS),
        # The mean logarithm of the entries grows by 2 log(omega) k / d at every step, whichever are drawn.
        Check("a = 1 diverges, where plain descent takes one step", 1.0, float(grown > 0),
              holds=when(omega > 1, "omega above 1: fewer than half of the entries kept")),
    )  # fmt: skip


def _log_growth(made: RandomK, settings: Settings, step: float, seed: int) -> float:
    """log of |x_T|^2 / |x_0|^2 over one run."""
    (draw,) = streams(seed, 1)
    point = np.ones(settings.elems)
    for _ in range(settings.steps):
        payload, _ = made.compress(point, None, draw)
        point = point - step * made.decompress(payload)
    return float(np.log(max((point**2).mean(), 1e-300)))


def _false_laws(made: RandomK, settings: Settings, omega: float, seed: int) -> tuple[Check, ...]:
    """The same rate at the same step; and the inequality whose square of the gradient is missing."""
    drawn = _draws(made, settings, 1, seed)
    squared = float((_start(settings) ** 2).sum())
    checks = []
    for step in (0.1, 0.5):
        got, error = drawn.factor(step)
        checks.append(Check(f"same rate as plain descent, a = {step:g}", (1 - step) ** 2, got, error, 0.0, True,
                            holds=tells(float(_factor(step, omega)), (1 - step) ** 2, error)))  # fmt: skip
        loss, spread = got * squared / 2, error * squared / 2
        right = squared / 2 - step * (1 - step * (1 + omega) / 2) * squared
        printed = squared / 2 - step * squared + step**2 / 2 * omega * squared
        checks.append(
            Check(f"descent inequality is an equality, a = {step:g}", right, loss, spread, 1e-9, holds=ALWAYS)
        )
        checks.append(Check(f"descent without its a^2 term, a = {step:g}", printed, loss, spread, 0.0, True,
                            holds=tells(right, printed, spread)))  # fmt: skip
    return (*checks, *_noiseless())


def _noiseless() -> tuple[Check, ...]:
    """f = x^2 / 2, a = 1/2, from x = 1, nothing random: the printed bound is 0, the loss 1/8."""
    *_, after = distances(0.5, 1)
    return (
        Check("published bound without noise and quantizer", 0.5 - 0.5, float(after**2 / 2), false_law=True,
              holds=example("x^2 / 2 from 1, a = 1/2")),
    )  # fmt: skip
