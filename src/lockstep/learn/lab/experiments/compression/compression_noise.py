"""The floor that compression leaves: additive errors add to the noise, relative ones multiply it.

On f = |x|^2 / 2 with gradient x + s z, step a, stationary E |x|^2 per direction:

    additive, x <- (1 - a) x - a e,  E e^2 = eps^2:          a eps^2 / (2 - a)          a = 1/2: eps^2 / 3
    relative, E |C(g)|^2 = (1 + omega) |g|^2:                a (1 + omega) s^2 / (2 - a (1 + omega))
    n ranks, own noise and own draws:                        a (1 + omega) s^2 / n / (2 - a (1 + omega / n))
    from x = 0, after t steps of E x^2 <- kept E x^2 + added:    added (1 + kept + ... + kept^(t - 1))
Refuted beside it: eps^2 / 12 for the first with a = 1/2, a floor that only adds to the variance for the second, and
that quantization matters less at large batches: its share of the noise, omega (1 + B |grad|^2 / s^2), grows with B.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass, replace
from lockstep.base.settings import setting
from lockstep.base.types.arrays import Array
from lockstep.learn.lab import ALWAYS, Check, Curve, Findings, Law, Picture, Progress, example, watched
from lockstep.learn.lab.descent.delayed import descend
from lockstep.learn.lab.findings import tells
from lockstep.learn.lab.laws import stationary_variance
from lockstep.learn.lab.statistics import mean_and_error, streams
from lockstep.learn.methods.compression import RandomK

QUESTION = "How high is the noise floor that compression leaves?"
SOURCE = "Alistarh et al. 2017; second moments of the linear recursion"

EPSILON = 1.0
ROUNDING = 1e-9
"""Share of a law: 100,000 steps that each round a few times by 2^-53."""
SQUARED, VARIANCE, BATCHES = 1.0, 100.0, (64, 2048)
"""The worked example of the batch: |grad|^2, the variance of one sample, and two batch sizes."""
BATCH_ELEMS, BATCH_KEPT_FRAC, DRAWS = 40, 0.25, 2000
BATCH_EXAMPLE = "batches 64 and 2048, |grad|^2 = 1, s^2 = 100, a quarter of 40 entries"


@dataclass(frozen=True, slots=True)
class Settings:
    """A quadratic of curvature 1, noisy gradients, and random-k."""

    elems: int = setting(40, "Dimensions of the quadratic.", least=2, most=1000)
    keep_frac: float = setting(0.25, "Fraction of the entries that random-k keeps.", above=0, most=1)
    step_sizes: tuple[float, ...] = setting((0.02, 0.05, 0.1, 0.2), "Step sizes of gradient descent.", above=0, below=2)
    ranks: int = setting(4, "Ranks of the parallel run.", least=1, most=32)
    repetitions: int = setting(20, "Independent runs.", least=6, most=1000)
    steps: int = setting(400, "Steps of a run; statistics are taken over the second half.", least=50, most=100_000)


def run(settings: Settings, seed: int, progress: Progress) -> Findings:
    """Floors over the step size: additive, relative, and of several ranks."""
    made = RandomK(settings.keep_frac)
    omega = made.variance_factor(settings.elems) or 0.0
    if max(settings.step_sizes) * (1 + omega) >= 2:
        raise BadInput(f"must stay below 2 / (1 + omega) = {2 / (1 + omega):.3g} to have a floor", "--set step_sizes")
    checks: list[Check] = []
    floors: dict[str, list[tuple[float, float, float]]] = {}
    for place, step in enumerate(watched(settings.step_sizes, progress)):
        for name, law, got in _floors(made, omega, step, settings, seed + 97 * place):
            mean, error = mean_and_error(got)
            checks.append(Check(f"{name}, a = {step:g}", law, mean, error, ROUNDING * law, runs=settings.repetitions,
                                holds=ALWAYS))  # fmt: skip
            floors.setdefault(name, []).append((law, mean, error))
    return Findings(
        checks=(*checks, *_false_laws(made, omega, settings, seed)),
        theory=_laws(omega, settings),
        curves=tuple(_curves(floors, np.array(settings.step_sizes))),
        picture=Picture("step_size", "squared_distance_per_direction", log_x=True, log_y=True),
        conclusion=f"omega = {omega:g} makes the floor at small steps {1 + omega:g} times higher; {settings.ranks} "
        f"ranks with independent draws divide it by {settings.ranks}",
        assumptions=("curvature 1 in every direction; gradient noise of variance 1 per direction",),
    )


def _floors(
    made: RandomK, omega: float, step: float, settings: Settings, seed: int
) -> tuple[tuple[str, float, Array], ...]:
    """(name, law for the second half of a run, which has the floor if it is long, simulated by the repetitions)."""
    ranks, steps = settings.ranks, settings.steps
    additive = _second_half((1 - step) ** 2, step**2 * EPSILON**2, steps)
    return (
        ("additive error", additive, _additive(step, settings, seed)),
        ("random-k", _compressed(step, omega, 1, steps), _relative(made, step, 1, settings, seed)),
        (f"random-k, {ranks} ranks", _compressed(step, omega, ranks, steps),
         _relative(made, step, ranks, settings, seed)),
    )  # fmt: skip


def _second_half(kept: float, added: float, steps: int) -> float:
    """Mean of E x^2 over the second half of a run from 0; every step keeps a share of it and adds to it."""
    moments = added * np.cumsum(kept ** np.arange(steps))
    return float(moments[steps // 2 :].mean())


def _compressed(step: float, omega: float, ranks: int, steps: int) -> float:
    """The same for the noisy gradients that ranks compress with draws of their own."""
    return _second_half((1 - step) ** 2 + step**2 * omega / ranks, step**2 * (1 + omega) / ranks, steps)


def _additive(step: float, settings: Settings, seed: int) -> Array:
    """Floor with an error of plus or minus epsilon in every direction; one value per repetition and direction."""
    start = np.zeros((settings.repetitions * settings.elems, 1))
    made = descend(np.ones(1), start, step, noise_std=EPSILON, steps=settings.steps,
                   first_record=settings.steps // 2 + 1, seed=seed)  # fmt: skip
    return 2 * made.averaged


def _relative(made: RandomK, step: float, ranks: int, settings: Settings, seed: int) -> Array:
    """Floor of compressed noisy gradients; one value per repetition. Repetitions draw one by one and step together."""
    draws, factor = streams(seed, settings.repetitions), made.factor(settings.elems)
    point, squares = np.zeros((settings.repetitions, settings.elems)), []
    for _ in range(settings.steps):
        noise, factors = np.zeros((2, ranks, *point.shape))
        for place, draw in enumerate(draws):
            noise[:, place] = draw.standard_normal((ranks, settings.elems))
            for rank in range(ranks):
                factors[rank, place, made.drawn(noise[rank, place], draw)] = factor
        point = point - step * (factors * (point + noise)).mean(axis=0)
        squares.append((point**2).mean(axis=1))
    return np.asarray(np.mean(squares[settings.steps // 2 :], axis=0))


def _laws(omega: float, settings: Settings) -> tuple[Law, ...]:
    """Floors per step size."""
    source = "stationary second moment of the linear recursion"
    return tuple(
        law
        for a in settings.step_sizes
        for law in (
            Law(f"additive floor, a = {a:g}", float(stationary_variance(a, 1.0, EPSILON**2)),
                "a eps^2 / (2 - a)", source),
            Law(f"relative floor, a = {a:g}", a * (1 + omega) / (2 - a * (1 + omega)),
                "a (1 + omega) s^2 / (2 - a (1 + omega))", source),
        )
    )  # fmt: skip


def _false_laws(made: RandomK, omega: float, settings: Settings, seed: int) -> tuple[Check, ...]:
    """The printed floor of the worked example, additive inflation, and the direction of the batch."""
    runs = settings.repetitions
    mean, error = mean_and_error(_additive(0.5, settings, seed + 11))
    checks = [
        Check("additive floor at a = 1/2: eps^2 / 3", EPSILON**2 / 3, mean, error, runs=runs, holds=ALWAYS),
        Check("additive floor at a = 1/2: eps^2 / 12", EPSILON**2 / 12, mean, error, false_law=True,
              runs=runs, holds=tells(EPSILON**2 / 3, EPSILON**2 / 12, error, runs=runs)),
    ]  # fmt: skip
    step = max(settings.step_sizes)
    got, spread = mean_and_error(_relative(made, step, 1, settings, seed + 12))
    right = _compressed(step, omega, 1, settings.steps)
    added = _second_half((1 - step) ** 2, step**2 * (1 + omega), settings.steps)
    checks.append(Check("relative error only adds to the variance", added, got, spread, false_law=True, runs=runs,
                        holds=tells(right, added, spread, runs=runs)))  # fmt: skip
    return *checks, *_short(made, omega, step, settings), *_share_checks(seed + 13)


def _short(made: RandomK, omega: float, step: float, settings: Settings) -> list[Check]:
    """The second half of a few steps from the optimum, in which E x^2 still grows."""
    few = replace(settings, steps=6, repetitions=400)
    additive, compressed = mean_and_error(_additive(step, few, 1)), mean_and_error(_relative(made, step, 1, few, 2))
    law = _second_half((1 - step) ** 2, step**2 * EPSILON**2, few.steps)
    return [
        Check("additive error, second half of 6 steps", law, *additive, runs=few.repetitions, holds=ALWAYS),
        Check("random-k, second half of 6 steps", _compressed(step, omega, 1, few.steps), *compressed,
              runs=few.repetitions, holds=ALWAYS),
    ]  # fmt: skip


def _share_checks(seed: int) -> tuple[Check, ...]:
    """Variance of compression over that of sampling at two batches, measured on gradients with noise."""
    made, found = RandomK(BATCH_KEPT_FRAC), []
    omega = made.variance_factor(BATCH_ELEMS) or math.nan
    for batch, draw in zip(BATCHES, streams(seed, len(BATCHES)), strict=True):
        value, error = mean_and_error(_shares(made, batch, draw))
        right = omega * (1 + batch * SQUARED / VARIANCE)
        found.append(Check(f"compression over sampling noise, batch {batch}", right, value, error, runs=DRAWS,
                           holds=example(BATCH_EXAMPLE)))  # fmt: skip
    small, large = found
    found.append(Check("quantization matters less at large batches", small.got, large.got, large.standard_error,
                       relation="at most", false_law=True, runs=DRAWS, holds=example(BATCH_EXAMPLE)))  # fmt: skip
    return tuple(found)


def _shares(made: RandomK, batch: int, draw: np.random.Generator) -> Array:
    """Squared error of each compressed gradient over the variance of sampling it, one per draw."""
    elems = BATCH_ELEMS
    mean = np.full(elems, (SQUARED / elems) ** 0.5)
    spread = (VARIANCE / batch / elems) ** 0.5
    shares = np.empty(DRAWS)
    for place in range(DRAWS):
        gradient = mean + spread * draw.standard_normal(elems)
        payload, _ = made.compress(gradient, made.start(gradient), draw)
        shares[place] = ((made.decompress(payload) - gradient) ** 2).sum() / (VARIANCE / batch)
    return shares


def _curves(floors: dict[str, list[tuple[float, float, float]]], steps: Array) -> Iterator[Curve]:
    for name, values in floors.items():
        law, mean, error = (np.array(column) for column in zip(*values, strict=True))
        yield Curve(f"{name}, law", steps, law, theory=True)
        yield Curve(f"{name}, simulated", steps, mean, half_ci95=1.96 * error, marks=True)
