"""What an error in the aggregated gradient costs: a floor that does not grow with the number of steps.

    unbiased, variance eps^2, quadratic:     a eps^2 / (2 (2 - a))            flat in T, of order eps^2
    constant bias delta, quadratic:          delta^2 / (2 mu)                 flat in T, of order delta^2
    opposing error eps <= c, Huber:          extra gap eps T / (2 T + 1)      of order R eps, not T eps^2
    constant bias, with error feedback:      the late part, a^2 mu |e|^2 / 2, vanishes with the step
Gaps are of f; a step, mu curvature, R distance of the start. The Huber function is linear beyond c = 1 / (2 T + 1),
the error points uphill and is given in units of c. Refuted beside it: an extra gap of order T eps^2, and that errors
must shrink like sqrt(eps / T).

A run of T steps still has (1 - a)^T of its way from x = 1 before it. What that adds to a gap is known, and a check
allows it:
    unbiased: E x^2 = V + (1 - V) (1 - a)^(2 T), V the variance of the floor       |1 - V| (1 - a)^(2 T) / 2
    biased: x = -delta (1 - q) with q = (1 + 1 / delta) (1 - a)^T                   (delta^2 / 2) q |2 - q|

Sources: Ajalloeian, Stich, "On the convergence of SGD with biased gradients", 2020; Karimireddy et al. 2019
(feedback).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.settings import setting
from lockstep.base.types.arrays import Array
from lockstep.learn.lab import ALWAYS, Check, Curve, Findings, Law, Picture, Progress, example, watched, when
from lockstep.learn.lab.descent.delayed import descend
from lockstep.learn.lab.findings import absent, tells
from lockstep.learn.lab.laws import stationary_variance
from lockstep.learn.lab.statistics import mean_and_error

QUESTION = "What does an error in the averaged gradient cost, and does the cost grow with the number of steps?"
SOURCE = "Ajalloeian and Stich 2020; Karimireddy et al. 2019"

FEW_STEPS = 30
"""Fewer are no run to speak of."""
MANY_STEPS = 400
"""Steps of the random error at most; each is done by every repetition."""
EARLY_STEPS = 10
"""After which the gap under feedback is that of plain descent, and still far from 0."""
ROUNDING = 1e-12
"""Of a gap, or of 1 for smaller gaps: descent stands still once a step, a times the way, is below a last digit."""

KINDS = ("unbiased", "biased", "opposing, Huber")


@dataclass(frozen=True, slots=True)
class Settings:
    """Step, errors and lengths of the runs."""

    step_size: float = setting(0.3, "Step size of gradient descent on f = x^2 / 2.", least=1e-3, below=1)
    errors: tuple[float, ...] = setting((0.01, 0.03, 0.1, 0.3), "Sizes of the gradient error.", least=1e-4, most=10)
    steps: tuple[int, ...] = setting(
        (100, 1000, 10_000), "Lengths of the runs, in steps.", least=FEW_STEPS, most=1_000_000
    )
    repetitions: int = setting(2000, "Independent runs with a random error.", least=100, most=1_000_000)


def run(settings: Settings, seed: int, progress: Progress) -> Findings:
    """Gap over the size of the error, for four kinds of it."""
    sizes, longest = np.array(sorted(set(settings.errors))), max(settings.steps)
    checks: list[Check] = []
    seen: dict[str, list[tuple[float, float]]] = {name: [] for name in KINDS}
    for place, size in enumerate(watched(sizes.tolist(), progress)):
        allowed = _allowed(settings, size, longest)
        for name, law, (mean, error) in _gaps(settings, size, longest, seed + place):
            checks.append(Check(f"{name}, error {size:g}", law, mean, error, allowed[name], holds=ALWAYS))
            seen[name].append((mean, error))
    return Findings(
        checks=(
            *checks,
            *_slopes(settings, seen, sizes, longest),
            *_flat(settings, seen["unbiased"], sizes),
            *_uphill(),
            *_feedback(settings),
        ),
        theory=tuple(law for size in sizes for law in _laws(settings, float(size), longest)),
        curves=tuple(_curves(settings, sizes, seen, longest)),
        picture=Picture("gradient_error", "loss_gap", log_x=True, log_y=True),
        conclusion="errors of a gradient leave a floor, quadratic in an error on a quadratic and linear on a slope; "
        "longer runs do not raise it",
        assumptions=("f = x^2 / 2; for the opposing error, the Huber function",),
    )  # fmt: skip


def _gaps(settings: Settings, size: float, steps: int, seed: int) -> Any:
    """(kind, law, (mean, standard error)) for one size of error."""
    a, slope = settings.step_size, 1 / (2 * steps + 1)
    yield "unbiased", _floor(a, size), mean_and_error(_unbiased_gap(settings, size, steps, seed))
    yield "biased", size**2 / 2, (_biased_gap(a, size, steps), 0.0)
    opposing = min(size, 1.0) * slope
    extra = _huber_gap(opposing, steps) - _huber_gap(0.0, steps)
    yield "opposing, Huber", opposing * steps * slope, (extra, 0.0)


def _floor(a: float, size: float) -> float:
    """Stationary loss under an unbiased error."""
    return float(stationary_variance(a, 1.0, size**2)) / 2


def _allowed(settings: Settings, size: float, steps: int) -> dict[str, float]:
    """What a run still has of its start, with rounding, by kind."""
    a, floor = settings.step_size, _floor(settings.step_size, size)
    left = abs(1 / 2 - floor) * (1 - a) ** (2 * min(steps, MANY_STEPS))
    both = left + ROUNDING * max(floor, 1.0), _left_of_the_start(a, size, steps)
    return dict(zip(KINDS, (*both, ROUNDING), strict=True))


def _way_left(a: float, size: Any, steps: Any) -> Any:
    """q of the first lines: what is left of the way from 1 to -size, in units of size."""
    return (1 + 1 / np.asarray(size)) * (1 - a) ** np.asarray(steps, dtype=float)


def _left_of_the_start(a: float, size: float, steps: int) -> float:
    """What the start adds to the gap under a constant error, or takes from it; with rounding."""
    floor, q = size**2 / 2, float(_way_left(a, size, steps))
    return floor * q * abs(2 - q) + ROUNDING * max(floor, 1.0)


def _power(x: Any, y: Any, error: Any = 0.0) -> tuple[float, float]:
    """The power of x that y grows with, by least squares in logarithms, and its standard error."""
    logs = np.log(x) - np.log(x).mean()
    weights = logs / (logs @ logs)
    return float(weights @ np.log(y)), float(np.linalg.norm(weights * np.asarray(error) / y))


def _unbiased_gap(settings: Settings, size: float, steps: int, seed: int) -> Array:
    """Loss after the steps, or `MANY_STEPS`, with an error of plus or minus `size`."""
    some, start = min(steps, MANY_STEPS), np.ones((settings.repetitions, 1))
    made = descend(np.ones(1), start, settings.step_size, noise_std=size, steps=some, first_record=some, seed=seed)
    (losses,) = made.losses
    return np.asarray(losses)


def _biased_gap(a: float, size: float, steps: int) -> float:
    """Loss after the steps with the same error in every gradient."""
    position = 1.0
    for _ in range(steps):
        position -= a * (position + size)
    return position**2 / 2


def _huber_gap(size: float, steps: int) -> float:
    """Gap after T steps of size 1 on the Huber function when every gradient is too small by `size`, up to its slope.

    No run gets to where the function is a parabola.
    """
    slope = 1 / (2 * steps + 1)
    position = 1.0
    for _ in range(steps):
        position -= (1 - size / slope) * min(position, slope)
    return slope * (position - slope / 2)


def _slopes(
    settings: Settings, seen: dict[str, list[tuple[float, float]]], sizes: Array, steps: int
) -> tuple[Check, ...]:
    """Powers of the error: 2 for both quadratics, 1 on the slope of the Huber function, up to an error of 1."""
    a = settings.step_size
    left = (1 - a) ** min(steps, MANY_STEPS)
    settled = when(left <= 0.05 * sizes[0] * math.sqrt(a), "step_size and steps for which the start no longer matters")
    if not np.ptp(sizes):
        return tuple(absent(f"power of the error, {name}", "at least two errors") for name in KINDS)
    gaps, _ = np.array(seen["opposing, Huber"]).T
    # An error above 1 would turn the Huber gradient around, and is as bad as 1.
    expected, _ = _power(sizes, np.minimum(sizes, 1.0))
    # Settled, the start moves a random floor by 0.5 % at most; a constant error's floor by the factor (1 - q)^2.
    moved, _ = _power(sizes, (1 - _way_left(a, sizes, steps)) ** 2) if settled.here else (0.0, 0.0)
    return (
        Check("power of the error, unbiased", 2.0, *_power(sizes, *np.array(seen["unbiased"]).T),
              tolerance=0.05, holds=settled),
        Check("power of the error, biased", 2.0, *_power(sizes, *np.array(seen["biased"]).T),
              tolerance=1e-6 + abs(moved), holds=settled),
        Check("power of the error, opposing, Huber", expected, *_power(sizes, gaps), tolerance=1e-9, holds=ALWAYS),
    )  # fmt: skip


def _flat(settings: Settings, unbiased: list[tuple[float, float]], sizes: Array) -> tuple[Check, ...]:
    """Floors of the largest error over the length of the run, and the laws T eps^2 and sqrt(gap / T) beside them."""
    a, (*_, size), (*_, (gap, error)), lengths = settings.step_size, sizes, unbiased, sorted(set(settings.steps))
    *_, long = lengths
    needed, error = math.sqrt(gap / long), error / 2 / math.sqrt(gap * long)
    expected = _floor(a, size) + (1 / 2 - _floor(a, size)) * (1 - a) ** (2 * min(long, MANY_STEPS))
    return (
        *_over_lengths(a, size, lengths),
        Check("error that the measured gap allows: sqrt(gap / T)", needed, size, error, false_law=True,
              holds=tells(size, math.sqrt(expected / long), error)),
    )  # fmt: skip


def _over_lengths(a: float, size: float, lengths: list[int]) -> tuple[Check, ...]:
    """The power of T of the floor under a constant error, its growth with T, and the way to it."""
    early = (1 + size) * (1 - a) ** EARLY_STEPS - size
    way = Check(f"gap under a constant error after {EARLY_STEPS} steps", early**2 / 2,
                _biased_gap(a, size, EARLY_STEPS), tolerance=ROUNDING * (1 + size) ** 2, holds=ALWAYS)  # fmt: skip
    names = ("power of T, biased", "gap grows like T eps^2, biased")
    short, long = min(lengths), max(lengths)
    if long == short:
        return (way, *(absent(name, "at least two lengths") for name in names))
    floors = [_biased_gap(a, size, steps) for steps in lengths]
    ways = _way_left(a, size, lengths)
    settled = when(ways[0] <= 1 / 2, "step_size and steps for which the start no longer matters")
    moved, _ = _power(lengths, (1 - ways) ** 2) if settled.here else (0.0, 0.0)
    few, *_, many = floors
    grown, left = few * long / short, _left_of_the_start(a, size, long)
    return (
        way,
        Check(names[0], 0.0, *_power(lengths, floors), tolerance=1e-6 + abs(moved), holds=settled),
        Check(names[1], grown, many, tolerance=left, false_law=True,
              holds=tells(size**2 / 2, grown, tolerance=2 * left)),
    )  # fmt: skip


def _uphill() -> Iterator[Check]:
    """Tiny errors that oppose the gradient on the Huber function, beside T eps^2; its own worst case without."""
    for steps in (100, 1000):
        tiny, plain = 1e-3 / steps, _huber_gap(0.0, steps)
        extra, law, false = _huber_gap(tiny, steps) - plain, tiny * steps / (2 * steps + 1), steps * tiny**2
        yield Check(f"gap of plain descent, Huber, T = {steps}", 1 / (4 * steps + 2), plain, tolerance=1e-12,
                    holds=example("R = 1"))  # fmt: skip
        yield Check(f"opposing, Huber, T = {steps}, error {tiny:g}", law, extra, tolerance=1e-9 * tiny,
                    holds=example("R = 1"))  # fmt: skip
        yield Check(f"extra gap T eps^2, T = {steps}, error {tiny:g}", false, extra, tolerance=false, false_law=True,
                    holds=example("R = 1"))  # fmt: skip


def _feedback(settings: Settings) -> tuple[Check, ...]:
    """Dropping the same amount every step: with memory it is only late, and the floor follows the squared step."""
    size, a = max(settings.errors), settings.step_size
    # The first payload lacks what is dropped; from then on memory and drop cancel, and descent is plain.
    early = (1 - a * (1 - size)) * (1 - a) ** (EARLY_STEPS - 1)
    return (
        _late(a, size),
        _late(a / 4, size),
        # The last of the steps brings what they leave of the start to a rounding.
        Check("logarithm of what the steps under feedback leave", math.log(np.finfo(float).eps) + math.log1p(-a) / 2,
              _forgetting(a) * math.log1p(-a), tolerance=-math.log1p(-a) / 2, holds=ALWAYS),
        Check(f"gap with feedback after {EARLY_STEPS} steps", early**2 / 2, _fed_back(a, size, EARLY_STEPS),
              tolerance=ROUNDING, holds=when(size < 1, "errors below 1, so that something is sent at the first step")),
    )  # fmt: skip


def _late(a: float, size: float) -> Check:
    """The gap that is left under feedback, of the square of the step."""
    return Check(f"gap with feedback, a = {a:g}", (a * size) ** 2 / 2, _fed_back(a, size, _forgetting(a)),
                 tolerance=1e-12, relation="at most", holds=ALWAYS)  # fmt: skip


def _forgetting(a: float) -> int:
    """Steps after which nothing of the start is left."""
    return math.ceil(math.log(np.finfo(float).eps) / math.log1p(-a))


def _fed_back(a: float, size: float, steps: int) -> float:
    """Loss after the steps, from 1, where every payload is too small by `size` and memory adds what was dropped."""
    position, residual = 1.0, 0.0
    for _ in range(steps):
        wanted = position + residual
        sent = math.copysign(max(abs(wanted) - size, 0.0), wanted)
        residual, position = wanted - sent, position - a * sent
    return position**2 / 2


def _laws(settings: Settings, size: float, steps: int) -> tuple[Law, ...]:
    a = settings.step_size
    return (
        Law(f"unbiased, error {size:g}", float(stationary_variance(a, 1.0, size**2)) / 2, "a eps^2 / (2 (2 - a))",
            "second moments"),
        Law(f"biased, error {size:g}", size**2 / 2, "delta^2 / (2 mu)", "fixed point x = -delta"),
        Law(f"opposing, Huber, error {size:g} c", min(size, 1.0) * steps / (2 * steps + 1) ** 2, "eps T / (2 T + 1)",
            "T equal steps"),
    )  # fmt: skip


def _curves(settings: Settings, sizes: Array, seen: dict[str, list[tuple[float, float]]], steps: int) -> Any:
    laws = np.array([[law.value for law in _laws(settings, float(size), steps)] for size in sizes]).T
    for (name, found), law in zip(seen.items(), laws, strict=True):
        values, _ = np.array(found).T
        yield Curve(f"{name}, law", sizes, law, theory=True)
        yield Curve(f"{name}, simulated", sizes, values, marks=True)
