"""How many more updates a delay costs: linear in it without noise, nothing once noise decides.

A quadratic with condition number kappa, its best constant step for every delay. Without noise the slowest direction
takes log(1 / eps) / -log(rate) updates; the slope over 1 + tau is about 1.28 times what no delay needs. With noise the
step must be small for the floor, and at a small step a delay changes nothing. Refuted: that a delay always costs in
proportion, the square law (1 + tau)^2, and that more delay is slower at a fixed step.
"""

from __future__ import annotations

import math

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.settings import setting
from lockstep.base.types.arrays import Array
from lockstep.learn.lab import ALWAYS, Check, Curve, Findings, Law, Picture, Progress, example, watched, when
from lockstep.learn.lab.descent.delayed import descend, distances
from lockstep.learn.lab.laws import best_step, floor, largest_stable_step, rate, stationary_variance

QUESTION = "How many more updates does training with a delay need, with and without gradient noise?"
SOURCE = "Agarwal and Duchi 2011; Arjevani, Shamir and Srebro 2020; roots of the delayed recursion"

LONG_DELAY = 50
FIRST_LOSS = 0.5
"""Of the noisy problem, whose distance is 1."""
LONG_RUN = 100_000
"""Updates from which on the start of a run, which the slowest root leaves out, is lost in the others."""
LAW_SOURCE = "largest root of the delayed recursion (learn/lab/laws.py)"


@dataclass(frozen=True, slots=True)
class Settings:
    """The problem and the delays."""

    delays: tuple[int, ...] = setting(
        (0, 1, 2, 4, 8, 16, 32), "Delays of a gradient, in updates between reading and applying.", least=0, most=64
    )
    step: float = setting(
        0.0, "Step size times the largest curvature, of every delay; 0 is the best one of each.", least=0, most=2
    )
    condition: float = setting(100.0, "Condition number of the quadratic.", least=1, most=1000)
    target_frac: float = setting(1e-4, "Distance to reach, as a fraction of the initial one.", above=0, most=0.1)
    noise_std: float = setting(1.0, "Standard deviation of the gradient noise in the noisy problem.", above=0, most=100)
    noisy_gap: float = setting(0.003, "Loss to reach in the noisy problem of curvature 1.", least=1e-6, most=1)


def run(settings: Settings, seed: int, progress: Progress) -> Findings:
    """Updates to the target for every delay."""
    delays = sorted(set(settings.delays))
    predicted, simulated, noisy, checks = [], [], [], []
    for delay in watched(delays, progress):
        step, slowest = _step(delay, settings)
        predicted.append(math.log(settings.target_frac) / math.log(slowest))
        simulated.append(_updates(delay, step, settings, 2 * math.ceil(predicted[-1])))
        noisy.append(_noisy_updates(delay, settings))
        what = f"updates to {settings.target_frac:g} at {_named(settings)}, delay {delay}"
        allowed = 0.05 * predicted[-1] + 3 * (delay + 1)
        checks.append(Check(what, predicted[-1], simulated[-1], tolerance=allowed, holds=ALWAYS))
    ages = 1.0 + np.array(delays)
    more = _more_checks(ages, np.array(simulated), np.array(noisy), settings)
    x = np.array(delays, dtype=float)
    return Findings(
        checks=(*checks, *more, _at_the_target(settings), _without_delay(settings), _quiet_step()),
        theory=tuple(
            Law(f"updates, delay {delay}", value, "log(eps) / log(rate)", LAW_SOURCE)
            for delay, value in zip(delays, predicted, strict=True)
        ),
        curves=(
            Curve("no noise, simulated", x, np.array(simulated), marks=True),
            Curve("noise dominates, exact second moments", x, np.array(noisy), marks=True),
            Curve("no noise: log(eps) / log(rate)", x, np.array(predicted), theory=True),
        ),
        picture=Picture("delay_steps", "updates", log_y=True),
        conclusion=(
            f"from delay {delays[0]} to {delays[-1]} updates grow {simulated[-1] / simulated[0]:.3g} times without "
            f"noise and {noisy[-1] / noisy[0]:.3g} times where noise dominates"
        ),
        assumptions=(
            f"no noise: curvatures 1 and 1/{settings.condition:g}, at {_named(settings)}",
            "noise: one direction of curvature 1, the step whose floor is 0.9 of the loss to reach",
        ),
    )


def _step(delay: int, settings: Settings) -> tuple[float, float]:
    """(step size times the largest curvature, factor per update of the slowest direction). Raises BadInput."""
    if not settings.step:
        return best_step(delay, settings.condition)
    slowest = max(rate(settings.step, delay), rate(settings.step / settings.condition, delay))
    if slowest >= 1:
        edge = largest_stable_step(delay)
        raise BadInput(f"must be below {edge:.4g}, where descent with a delay of {delay} diverges", "step")
    return settings.step, slowest


def _named(settings: Settings) -> str:
    return f"a step of {settings.step:g}" if settings.step else "the best step"


def _updates(delay: int, step: float, settings: Settings, steps: int) -> float:
    """Updates after which the distance of a run without noise stays below the target."""
    curvatures = np.array([1 / settings.condition, 1.0])
    made = descend(curvatures, np.eye(2) / np.sqrt(curvatures), step, delay=delay, steps=steps)
    # Both directions start at loss 1/2, so the distance falls by the root of the loss.
    return _stays_within(np.sqrt(2 * made.losses).max(axis=1), settings.target_frac)


def _stays_within(distance: Array, target: float) -> float:
    """The step after the last one that is farther than the target."""
    return float(np.flatnonzero(distance > target).max() + 1)


def _noisy_step(delay: int, settings: Settings) -> float:
    """The largest step, up to 1/2, whose floor is 0.9 of the loss to reach."""
    low, high = 0.0, min(0.5, largest_stable_step(delay))
    for _ in range(60):
        middle = (low + high) / 2
        enough = floor(middle, 1.0, delay, noise_std=settings.noise_std) / 2 < 0.9 * settings.noisy_gap
        low, high = (middle, high) if enough else (low, middle)
    return low


def _noisy_updates(delay: int, settings: Settings) -> float:
    """Updates until E loss of a noisy direction from x = 1 stays at the target, by exact second moments; 1 at least."""
    step = _noisy_step(delay, settings)
    left = 2 * (settings.noisy_gap - floor(step, 1.0, delay, noise_std=settings.noise_std) / 2)
    about = math.log(math.sqrt(left)) / math.log(rate(step, delay))
    if about > LONG_RUN:
        return about
    loss = _expected_loss(step, delay, settings.noise_std, 2 * math.ceil(about) + 10 * (delay + 1))
    return _stays_within(loss, settings.noisy_gap) if settings.noisy_gap < FIRST_LOSS else 1.0


def _expected_loss(step: float, delay: int, noise_std: float, steps: int) -> Array:
    """E x^2 / 2 after 0, 1, ... `steps` updates from x = 1.

    A draw of noise enters as -a and goes on as the mean does from `delay` updates before its start, so its share of the
    variance is the square of that path.
    """
    mean = distances(step, steps, delay)
    answer = np.concatenate([np.ones(delay), mean])[:steps]
    variance = np.concatenate([[0.0], np.cumsum((step * noise_std * answer) ** 2)])
    return np.asarray((mean**2 + variance) / 2)


def _at_the_target(settings: Settings) -> Check:
    """Updates without delay by the closed form of both moments: each tends to its end by (1 - a)^2 an update."""
    step = _noisy_step(0, settings)
    settled = float(stationary_variance(step, 1.0, settings.noise_std**2))
    share = (2 * settings.noisy_gap - settled) / (1 - settled)
    law = math.log(share) / math.log(1 - step) / 2
    return Check("updates that noise asks for without delay, by their closed form", law + 0.5,
                 _noisy_updates(0, settings), tolerance=0.5 + 1e-6 * law,
                 holds=when(settings.noisy_gap < FIRST_LOSS, "a loss to reach below that of the start"))  # fmt: skip


def _quiet_step() -> Check:
    """Where noise hardly matters the step is the largest that is tried, and not the edge of stability at 2."""
    found = _noisy_step(0, Settings(noise_std=1e-3, noisy_gap=1.0))
    return Check("step that a noise of 1/1000 allows, no delay", 0.5, found, tolerance=1e-9,
                 holds=example("a loss of 1 to reach, curvature 1"))  # fmt: skip


def _without_delay(settings: Settings) -> Check:
    """Updates at half of the inverse curvature, where the slow direction shrinks by 1 - 1 / (2 condition) an update."""
    law = math.log(settings.target_frac) / math.log(1 - 0.5 / settings.condition)
    return Check("updates without delay at a step of 1 / (2 L)", law + 0.5,
                 _updates(0, 0.5, settings, math.ceil(law)), tolerance=0.6, holds=ALWAYS)  # fmt: skip


def _more_checks(ages: np.ndarray, simulated: np.ndarray, noisy: np.ndarray, settings: Settings) -> tuple[Check, ...]:
    """Straight line without noise, no cost with it, and what is wrongly said."""
    r2 = float(np.corrcoef(ages, simulated)[0, 1] ** 2) if np.ptp(ages) else math.nan
    growth, cost, longest = (float(many[-1] / many[0]) for many in (simulated, noisy, ages))
    faster = _fixed_step_updates(4) / _fixed_step_updates(0)
    decides = when(
        _noisy_step(0, settings) < largest_stable_step(int(ages[-1]) - 1) / 2,
        "a target so low that the noise allows at most half the step that the longest delay allows",
    )
    apart = when(
        not settings.step and len(ages) > 2 and longest >= 4,
        "at least 3 delays, the longest at least 4 times the first; the best step",
    )
    proportion = "a delay always costs in proportion, noise dominates"
    short = _updates_at_once(LONG_DELAY)
    return (
        Check(f"no run shorter than tau^2 converges: updates with delay {LONG_DELAY}", float(LONG_DELAY**2), short,
              relation="at least", false_law=True, holds=example("a lambda = 1 / (2 tau), to 1 % of the distance")),
        Check("R^2 of updates over 1 + delay, no noise", 0.99, r2, relation="at least", holds=apart),
        Check("updates grow like (1 + delay)^2", longest**2, growth, tolerance=0.5 * growth, false_law=True,
              holds=apart),
        Check("more delay is slower at a fixed step of 0.1", 1.0, faster, relation="at least", false_law=True,
              holds=example("delays 4 and 0, from 5 sqrt(2) to 0.01")),
        Check("updates with the longest delay / without, noise "
              "dominates", 1.1, cost, relation="at most", holds=decides),
        Check(proportion, longest, cost, tolerance=0.5, relation="at least", false_law=True, holds=decides & apart),
    )  # fmt: skip


def _updates_at_once(delay: int) -> float:
    """Updates until |x| stays below a hundredth of the start, one curvature, a lambda = 1 / (2 tau)."""
    return _stays_within(distances(0.5 / delay, steps=40 * delay, delay=delay), 0.01)


def _fixed_step_updates(delay: int) -> float:
    """Updates until |x| stays below 0.01, from 5 sqrt(2), at a * lambda = 0.1."""
    return _stays_within(distances(0.1, 200, delay), 0.01 / (5 * math.sqrt(2)))
