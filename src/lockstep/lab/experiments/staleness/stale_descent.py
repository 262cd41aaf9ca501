"""When does an old gradient still point downhill? A radius that is enough, and what it does not say.

If the curvature is at most L on the way from w_s to w and |w - w_s| <= |g_s| / L, then grad f(w) . g_s >= 0: moving
against the old gradient g_s goes downhill at w. Outside that radius most directions still point downhill, so leaving it
means nothing; and inside, a step that is too long still raises the loss. Refuted: that outside means uphill, and that
inside means the loss falls.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lockstep.lab import ALWAYS, Check, Curve, Findings, Law, Picture, Progress, example, watched
from lockstep.lab.descent.delayed import distances
from lockstep.lab.objectives import LANDSCAPES
from lockstep.lab.statistics import mean_and_error
from lockstep.settings import setting

QUESTION = "How far may parameters move before a stale gradient points uphill?"
SOURCE = "Cauchy-Schwarz with a bounded Hessian"

INSIDE, OUTSIDE = (0.25, 0.5, 0.75, 1.0), (1.5, 2.0, 3.0)
RADII = (*INSIDE, *OUTSIDE)


@dataclass(frozen=True, slots=True)
class Settings:
    """How many pairs of points are tried."""

    pairs: int = setting(50_000, "Number of random pairs of points per radius.", least=1000, most=10_000_000)


def run(settings: Settings, seed: int, progress: Progress) -> Findings:
    """Share of random displacements after which the old gradient still goes downhill."""
    objective = LANDSCAPES["ripples"]
    smoothness = float(objective.smoothness or np.nan)
    generator = np.random.default_rng(seed)
    shares, outside, inside = [], [], []
    for radius in watched(RADII, progress):
        old = generator.uniform(-4, 4, (settings.pairs, objective.dimension))
        gradient = objective.gradient(old)
        direction = generator.standard_normal(old.shape)
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        length = radius * np.linalg.norm(gradient, axis=1, keepdims=True) / smoothness
        product = (objective.gradient(old + length * direction) * gradient).sum(-1)
        uphill = product < 0
        shares.append(1 - uphill.mean())
        if radius in INSIDE:
            inside.append(uphill)
        else:
            outside.append(1.0 - uphill)
    x = np.array(RADII)
    downhill, error = mean_and_error(np.concatenate(outside))
    *_, after = distances(2.5, 1) ** 2 / 2
    return Findings(
        checks=(
            Check("uphill pairs inside the radius", 0.0, float(np.concatenate(inside).sum()), holds=ALWAYS),
            Check("outside the radius the stale gradient points uphill", 0.0, downhill, error, false_law=True,
                  holds=ALWAYS),
            Check("inside the radius the loss falls, x^2 / 2 from 1 with a = 2.5", 0.5, float(after),
                  relation="at most", false_law=True, holds=example("x^2 / 2 from 1, a = 2.5")),
        ),
        theory=(Law("sufficient radius, relative to |g_s| / L", 1.0, "|w - w_s| <= |g_s| / L", "Cauchy-Schwarz"),),
        curves=(
            Curve("random displacements", x, np.array(shares), marks=True),
            Curve("always sufficient", np.array([1.0, 1.0]), np.array([min(shares), 1.0]), theory=True),
        ),
        picture=Picture("distance_over_gradient_per_smoothness", "downhill_frac"),
        conclusion=f"none of {len(INSIDE) * settings.pairs:,} pairs inside the radius points uphill; "
        f"outside {downhill:.0%} still point downhill",
        assumptions=("ripples in four dimensions, L = 3; displacements in random directions",),
    )  # fmt: skip
