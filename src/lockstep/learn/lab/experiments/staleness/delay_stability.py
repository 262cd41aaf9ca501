"""Where delayed gradient descent with momentum stops being stable: the exact curve, found again by running it.

For every delay and momentum, the largest stable a * lambda is searched by running the recursion on many step sizes at
once and asking which runs shrink. a * lambda * tau <= 1 - beta is always enough, and at most pi / 2 times too careful.
Refuted beside it: a * tau * lambda < 1 as the edge, that the step may stay at 1/L with any delay, that 1/mu may stand
for 1/L in it, and that a delay may grow in proportion to 1/a whatever the factor.
"""

from __future__ import annotations

import math

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.settings import setting
from lockstep.learn.lab import ALWAYS, Check, Curve, Findings, Law, Picture, Progress, absent, example, when
from lockstep.learn.lab.descent.delayed import RESOLUTION, delayed_shrinks, factor, searched_edge
from lockstep.learn.lab.laws import largest_stable_step, rate

QUESTION = "How much smaller must the step be when gradients are stale, with and without momentum?"
SOURCE = "characteristic roots of the delayed recursion; Levin and May 1976 for momentum 0"

CONDITION = 100
GRID = 40
SADDLE = -0.01
"""Steps of the map of stable and unstable runs."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Which combinations are run."""

    delays: tuple[int, ...] = setting(
        (0, 1, 2, 5, 10, 20),
        "Delays of a gradient, in updates between reading the parameters and applying it.",
        least=0,
        most=200,
    )
    momenta: tuple[float, ...] = setting((0.0, 0.5, 0.9), "Heavy-ball momentum.", least=0, most=0.98)
    steps: int = setting(
        2000, "Steps of a run; more steps locate the stability limit more precisely.", least=1000, most=100_000
    )


def run(settings: Settings, seed: int, progress: Progress) -> Findings:
    """Edges of every momentum over the delay."""
    delays = sorted(set(settings.delays))
    momenta = sorted(set(settings.momenta))
    total = len(delays) * len(momenta)
    checks: list[Check] = []
    curves: list[Curve] = []
    for momentum in momenta:
        exact, found = [], []
        for delay in delays:
            exact.append(largest_stable_step(delay, momentum))
            found.append(_searched_edge(delay, momentum, settings.steps))
            what = f"largest stable step, delay {delay}, momentum {momentum:g}"
            checks.append(Check(what, exact[-1], found[-1], tolerance=2 * RESOLUTION * exact[-1], holds=ALWAYS))
            progress(len(checks), total)
        named = f"momentum {momentum:g}"
        x = np.array(delays, dtype=float)
        curves.append(Curve(f"{named}, exact", x, np.array(exact), theory=True))
        curves.append(Curve(f"{named}, searched", x, np.array(found), marks=True))
    return Findings(
        checks=(
            *checks,
            _map_check(delays, momenta, settings.steps),
            *_saddle_checks(),
            *_rules(delays, momenta),
            *_false_laws(delays, settings.steps),
        ),
        theory=tuple(_law(delay, momentum) for momentum in momenta for delay in delays),
        curves=tuple(curves),
        picture=Picture("delay_steps", "step_size_times_curvature", log_y=True),
        conclusion=_conclusion(delays[-1], momenta[-1]),
        assumptions=("one quadratic direction; of several, the one with the largest curvature decides",),
    )


def _map_check(delays: list[int], momenta: list[float], steps: int) -> Check:
    """Stable or not on a grid of (step, delay, momentum), leaving out 1 % around the exact edge."""
    right = points = 0
    grid = np.geomspace(1e-3, 4.2, GRID)
    for momentum in momenta:
        for delay in delays:
            edge = largest_stable_step(delay, momentum)
            clear = grid[np.abs(grid / edge - 1) > 0.01]
            right += int((delayed_shrinks(clear, delay, momentum, steps) == (clear < edge)).sum())
            points += len(clear)
    return Check(
        f"fraction of {points} points of the stability map on the predicted side", 1.0, right / points, holds=ALWAYS
    )


def _saddle_checks() -> list[Check]:
    """Along negative curvature every step grows, delayed or not."""
    plain, delayed = factor(SADDLE, 0), factor(SADDLE, 5)
    where = example("a lambda = -0.01, delays 0 and 5")
    root = float(np.abs(np.roots([1.0, -1.0, 0.0, 0.0, 0.0, 0.0, SADDLE])).max())
    return [
        Check("runs along negative curvature that diverge, of 2", 2.0, float((plain > 1) + (delayed > 1)),
              holds=where),
        Check("factor per step along negative curvature, delay 5", root, delayed, tolerance=1e-6, holds=where),
        Check("factor per step along negative curvature, no delay", 1.01, plain, tolerance=1e-6, holds=where),
    ]  # fmt: skip


def _rules(delays: list[int], momenta: list[float]) -> list[Check]:
    """What is safe and what is not: a lambda tau <= 1 - beta; 1.5 and 1.6 over the step; a step over mu, not L."""
    pairs = [(delay, momentum) for delay in delays for momentum in momenta if delay > 0]
    room = [largest_stable_step(delay, momentum) * delay / (1 - momentum) for delay, momentum in pairs] or [math.nan]
    *_, longest = delays
    over_mu = 0.1 * CONDITION / (1 + longest)
    grown = factor(over_mu, longest)
    late = when(bool(pairs), "a delay of 1 or more")
    found = [
        Check("largest stable a lambda tau over 1 - beta, minimum", 1.0, min(room), relation="at least",
              tolerance=1e-9, holds=late),
        Check("largest stable a lambda tau over 1 - beta, maximum", math.pi / 2, max(room), relation="at most",
              holds=late),
        Check(f"0.1 / (mu (1 + tau)) is stable, condition number {CONDITION}", 1.0, float(grown < 1), false_law=True,
              holds=late),
        Check(f"factor per step at 0.1 / (mu (1 + tau)), delay {longest}", rate(10 / (1 + longest), longest), grown,
              tolerance=1e-2 * rate(10 / (1 + longest), longest), holds=late),
    ]  # fmt: skip
    inside, beyond = factor(0.01, 150), factor(0.01, 160)
    return [
        *found,
        Check("a lambda = 0.01, delay 1.5 / a: shrinks (1 = yes)", 1.0, float(inside < 1), holds=example("delay 150")),
        Check("a lambda = 0.01, delay 1.5 / a: factor per step", rate(0.01, 150), inside, tolerance=2e-6,
              holds=example("delay 150")),
        Check("delays in proportion to 1 / a are safe: 1.6 / a, a lambda = 0.01", 1.0, float(beyond < 1),
              false_law=True, holds=example("delay 160")),
        Check("a lambda = 0.01, delay 1.6 / a: factor per step", rate(0.01, 160), beyond, tolerance=2e-6,
              holds=example("delay 160")),
    ]  # fmt: skip


def _conclusion(delay: int, momentum: float) -> str:
    """What the longest delay and the largest momentum cost."""
    plain = largest_stable_step(0) / largest_stable_step(delay)
    both = largest_stable_step(0, momentum) / largest_stable_step(delay, momentum)
    return (
        f"a delay of {delay} makes the largest stable step {plain:.3g} times smaller, with momentum {momentum:g} "
        f"{both:.4g} times"
    )


def _law(delay: int, momentum: float) -> Law:
    formula = "2 sin(pi / (2 (2 tau + 1)))" if momentum == 0 else "2 sin(theta/2) |exp(i theta) - beta|"
    name = f"largest stable a*lambda, tau = {delay}, beta = {momentum:g}"
    return Law(name, largest_stable_step(delay, momentum), formula, "roots on the unit circle (learn/lab/laws.py)")


def _false_laws(delays: list[int], steps: int) -> list[Check]:
    """a * tau * lambda < 1 as the edge, and a = 1/L with any delay, where the delays show them."""
    first, *_ = [delay for delay in delays if delay >= 2] or [0]
    if not first:
        return [absent(what, "a delay of 2 or more") for what in ("stability limit at 1 / delay", "a = 1/L converges")]
    edge, grown = _searched_edge(first, 0.0, steps), factor(1.0, first)
    return [
        Check("stability limit at 1 / delay, delay "
              f"{first}", 1 / first, edge, tolerance=2 * RESOLUTION * edge, false_law=True,
              holds=when(True, "a delay of 2 or more")),
        Check(f"a = 1/L converges with delay {first}", 1.0, float(grown < 1), false_law=True,
              holds=when(True, "a delay of 2 or more")),
        Check(f"factor per step at the step 1 / L, delay {first}", rate(1.0, first), grown, tolerance=1e-2,
              holds=when(True, "a delay of 2 or more")),
    ]  # fmt: skip


def _searched_edge(delay: int, momentum: float, steps: int) -> float:
    """The edge, found by running from 1."""
    return searched_edge(lambda candidates: delayed_shrinks(candidates, delay, momentum, steps))
