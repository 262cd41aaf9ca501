"""Delays that vary are worse than the longest one held fixed: an adversary that picks the worst delay at every step.

x_(t+1) = x_t - a lambda x_(t - tau_t), any tau_t from 0 to tau: stable if a lambda (tau + 1) < 3/2 + 1/(2 (tau + 1)).
The adversary keeps going one way, with the old position that pushes hardest, until none of the last tau + 1 pushes that
way any more. The limit it finds lies between that bound and the limit of the fixed delay, which approaches pi / 2.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.settings import setting
from lockstep.learn.lab import ALWAYS, Check, Curve, Findings, Law, Picture, Progress, watched
from lockstep.learn.lab.laws import largest_stable_step

QUESTION = "How much smaller must the step be when delays vary arbitrarily up to a bound?"
SOURCE = "Erbe, Xia and Yu 1995 (3/2 condition of Yorke); a simulated adversary"

SEARCHES = 24
GROWN, SHRUNK = 1e6, 1e-6


@dataclass(frozen=True, slots=True)
class Settings:
    """Largest delays, in updates."""

    delays: tuple[int, ...] = setting((2, 5, 10, 20, 50), "Largest delays, in updates.", least=2, most=100)
    steps: int = setting(6000, "Steps of a run.", least=1000, most=100_000)


def run(settings: Settings, seed: int, progress: Progress) -> Findings:
    """Largest stable a * lambda * (tau + 1) against the adversary."""
    delays = sorted(set(settings.delays))
    found, checks = [], []
    for delay in watched(delays, progress):
        found.append(_searched(delay, settings.steps) * (delay + 1))
        fixed = largest_stable_step(delay) * (delay + 1)
        slack = 0.01 * found[-1]
        what = f"limit against an adversary, delay up to {delay}"
        checks.append(Check(what, _sufficient(delay), found[-1], tolerance=slack, relation="at least", holds=ALWAYS))
        checks.append(Check(f"{what}, at most that of the fixed delay", fixed, found[-1], tolerance=slack,
                            relation="at most", holds=ALWAYS))  # fmt: skip
    x = np.array(delays, dtype=float)
    return Findings(
        checks=tuple(checks),
        theory=tuple(
            Law(f"sufficient for any delays up to {delay}", _sufficient(delay), "3/2 + 1/(2 (tau + 1))",
                "Erbe, Xia, Yu 1995")
            for delay in delays
        ),
        curves=(
            Curve("adversary, searched", x, np.array(found), marks=True),
            Curve("sufficient for any delays", x, np.array([_sufficient(delay) for delay in delays]), theory=True),
            Curve("fixed delay, exact", x, np.array([largest_stable_step(d) * (d + 1) for d in delays]), theory=True),
        ),
        picture=Picture("longest_delay_steps", "step_times_curvature_times_delay_plus_1"),
        conclusion=f"with delays up to {delays[-1]} the adversary allows a lambda (tau + 1) = {found[-1]:.4g}",
        assumptions=("one simple adversary; a stronger one may come closer to the bound",),
    )  # fmt: skip


def _sufficient(delay: int) -> float:
    return 1.5 + 0.5 / (delay + 1)


def _searched(delay: int, steps: int) -> float:
    """a * lambda at which the adversary starts to win."""
    low, high = 0.0, largest_stable_step(delay)
    for _ in range(SEARCHES):
        middle = (low + high) / 2
        low, high = (low, middle) if _grows(middle, delay, steps) else (middle, high)
    return (low + high) / 2


def _grows(step: float, delay: int, steps: int) -> bool:
    """Whether the adversary makes the run larger in its last quarter than in the one before."""
    seen = [1.0] * (delay + 1)
    largest = [0.0] * 4
    down = True
    for place in range(steps):
        high, low = max(seen), min(seen)
        # One position may be 0 in passing; all that somebody may still read is what has shrunk.
        size = max(high, -low)
        if size > GROWN:
            return True
        if size < SHRUNK:
            return False
        down = high > 0 if down else low >= 0
        new = seen[-1] - step * (high if down else low)
        seen.append(new)
        del seen[0]
        largest[4 * place // steps] = max(largest[4 * place // steps], abs(new))
    return largest[3] > largest[2]
