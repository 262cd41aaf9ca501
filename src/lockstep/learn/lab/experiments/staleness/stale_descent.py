"""When does an old gradient still point downhill? A radius that is enough, and what it does not say.

If the curvature is at most L on the way from w_s to w and |w - w_s| <= |g_s| / L, then grad f(w) . g_s >= 0: moving
against the old gradient g_s goes downhill at w. Outside that radius most directions still point downhill, so leaving it
means nothing; and inside, a step that is too long still raises the loss. Refuted: that outside means uphill, and that
inside means the loss falls.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.settings import setting
from lockstep.base.types.arrays import Array
from lockstep.learn.lab import ALWAYS, Check, Curve, Findings, Law, Picture, Progress, example, watched
from lockstep.learn.lab.descent.delayed import distances
from lockstep.learn.lab.objectives import LANDSCAPES
from lockstep.learn.lab.statistics import mean_and_error

QUESTION = "How far may parameters move before a stale gradient points uphill?"
SOURCE = "Cauchy-Schwarz with a bounded Hessian"

OUTSIDE = (1.5, 2.0, 3.0)
"""Radii beyond the one that is enough, in units of it."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How many pairs of points are tried."""

    pairs: int = setting(
        50_000,
        "Number of random pairs of points inside the radius, and at each radius outside.",
        least=1000,
        most=10_000_000,
    )


def run(settings: Settings, seed: int, progress: Progress) -> Findings:
    """Share of random displacements after which the old gradient still goes downhill."""
    generator = np.random.default_rng(seed)
    inside = _uphill(generator.random((settings.pairs, 1)), settings.pairs, generator)
    outside = [1.0 - _uphill(radius, settings.pairs, generator) for radius in watched(OUTSIDE, progress)]
    downhill, error = mean_and_error(np.concatenate(outside))
    within = 1 - inside.mean()
    x = np.array([0.0, 1.0, *OUTSIDE])
    shares = np.array([within, within, *(one.mean() for one in outside)])
    *_, after = distances(2.5, 1) ** 2 / 2
    return Findings(
        checks=(
            Check("uphill pairs inside the radius", 0.0, float(inside.sum()), holds=ALWAYS),
            Check("outside the radius the stale gradient points uphill", 0.0, downhill, error, false_law=True,
                  holds=ALWAYS),
            Check("inside the radius the loss falls, x^2 / 2 from 1 with a = 2.5", 0.5, float(after),
                  relation="at most", false_law=True, holds=example("x^2 / 2 from 1, a = 2.5")),
        ),
        theory=(Law("sufficient radius, relative to |g_s| / L", 1.0, "|w - w_s| <= |g_s| / L", "Cauchy-Schwarz"),),
        curves=(
            Curve("random displacements", x, shares, marks=True),
            Curve("always sufficient", np.array([1.0, 1.0]), np.array([min(shares), 1.0]), theory=True),
        ),
        picture=Picture("distance_over_gradient_per_smoothness", "downhill_frac"),
        conclusion=f"none of {settings.pairs:,} pairs inside the radius points uphill; "
        f"outside {downhill:.0%} still point downhill",
        assumptions=("ripples in four dimensions, L = 3; displacements in random directions",),
    )  # fmt: skip


def _uphill(radius: Array | float, pairs: int, generator: np.random.Generator) -> Array:
    """Whether the old gradient points uphill after a random displacement by a radius, or by one for each pair."""
    objective = LANDSCAPES["ripples"]
    old = generator.uniform(-4, 4, (pairs, objective.dimension))
    gradient = objective.gradient(old)
    direction = generator.standard_normal(old.shape)
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    length = radius * np.linalg.norm(gradient, axis=1, keepdims=True) / float(objective.smoothness or np.nan)
    product = (objective.gradient(old + length * direction) * gradient).sum(-1)
    return np.asarray(product < 0)
