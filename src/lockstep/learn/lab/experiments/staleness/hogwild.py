"""Hogwild: why sparse updates bear delays. Two updates only meet on the coordinates that both touch.

Every update touches each coordinate with probability rho. A coordinate is then behind by a binomial number of its own
updates: rho tau on average, and by none at all with probability (1 - rho)^tau. So the largest stable step rises from
the dense limit 2 sin(pi / (2 (2 tau + 1))) to almost that without delay. Refuted: that the dense limit holds for sparse
updates.
"""

from __future__ import annotations

import math

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.settings import setting
from lockstep.base.types.arrays import Array
from lockstep.learn.lab import ALWAYS, Check, Curve, Findings, Law, Picture, Progress, mean_and_error, watched, when
from lockstep.learn.lab.descent.delayed import LIMIT, RESOLUTION, Windows, searched_edge
from lockstep.learn.lab.laws import largest_stable_step
from lockstep.learn.lab.statistics import share_error

QUESTION = "Why do lock-free sparse updates tolerate delays that dense ones do not?"
SOURCE = "Niu, Recht, Re and Wright, NIPS 2011; counting of collisions"

LEAST_TOUCHES = 10
"""Delays in a run, from which on its quarters tell growing from shrinking."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Delay and densities."""

    delay: int = setting(15, "Delay of a gradient in updates: n - 1 for n workers.", least=1, most=200)
    densities: tuple[float, ...] = setting(
        (0.01, 0.03, 0.1, 0.3, 1.0), "Fraction of the coordinates that an update touches.", least=0.005, most=1
    )
    touches: int = setting(300, "Number of updates that touch one coordinate in a run.", least=100, most=100_000)


def run(settings: Settings, seed: int, progress: Progress) -> Findings:
    """Stable steps and meetings over the density."""
    if settings.touches < LEAST_TOUCHES * settings.delay:
        raise BadInput(f"must be at least {LEAST_TOUCHES} delays, to tell growing from shrinking", "--set touches")
    densities = sorted(set(settings.densities))
    edges, checks, rows = [], [], []
    for place, density in enumerate(watched(densities, progress)):
        generator = np.random.default_rng([seed, place])
        updates = int(settings.touches / density)
        touched = generator.random(updates) < density
        checks.append(Check(f"updates of a run that touch a coordinate, density {density:g}", settings.touches,
                            float(touched.sum()), math.sqrt(settings.touches * (1 - density)), tolerance=1.0,
                            holds=ALWAYS))  # fmt: skip
        edges.append(searched_edge(lambda a, touched=touched: _shrinks(a, touched, settings.delay)))  # type: ignore[misc]
        behind = _behind(generator.random((4000, settings.delay)) < density)
        met = float((behind > 0).mean())
        meets = 1 - (1 - density) ** settings.delay
        checks.append(Check(f"mean staleness of a coordinate, density {density:g}", density * settings.delay,
                            *mean_and_error(behind), holds=ALWAYS))  # fmt: skip
        checks.append(Check(f"fraction of updates that collide with another, density {density:g}", meets, met,
                            share_error(meets, len(behind)), holds=ALWAYS))  # fmt: skip
        rows.append({"density": density, "largest_step": edges[-1], "mean_age": float(behind.mean()), "met_frac": met})
    dense, (sparsest, *_), (widest, *_) = largest_stable_step(settings.delay), densities, edges
    sparse = when(sparsest * settings.delay < 0.5, "density x delay below 1/2, so that most updates collide with none")
    checks += [
        Check("largest step, dense", dense, edges[-1], tolerance=2 * RESOLUTION * dense,
              holds=when(densities[-1] == 1, "a density of 1")),
        Check(f"the dense limit holds at density {sparsest:g}", dense, widest, tolerance=0.5 * dense,
              false_law=True, holds=sparse),
    ]  # fmt: skip
    x = np.array(densities)
    return Findings(
        checks=tuple(checks),
        theory=(
            Law("largest step, dense", dense, "2 sin(pi / (2 (2 tau + 1)))", "learn/lab/laws.py"),
            Law("largest step, no collisions", 2.0, "2 / lambda", "gradient descent"),
        ),
        rows=tuple(rows),
        curves=(
            Curve("searched", x, np.array(edges), marks=True),
            Curve("dense, exact", x, np.full(len(x), dense), theory=True),
            Curve("no delay: 2", x, np.full(len(x), 2.0), theory=True),
        ),
        picture=Picture("density_frac", "step_size_times_curvature", log_x=True, log_y=True),
        conclusion=(
            f"with a delay of {settings.delay}, updates that touch {sparsest:.3g} of the coordinates tolerate a "
            f"step {widest / dense:.3g} times that of dense ones"
        ),
        assumptions=("additions to one coordinate are atomic: no write is lost", "the same delay for all updates"),
    )


def _behind(touched: Array) -> Array:
    """Updates of a coordinate among the `delay` ones that a read has missed."""
    found: Array = touched.sum(axis=1)
    return found


def _shrinks(steps_curvature: Array, touched: Array, delay: int) -> Array:
    """Whether one coordinate shrinks when only `touched` updates change it, each by its value `delay` updates ago."""
    ring = np.ones((delay + 1, len(steps_curvature)))
    windows = Windows(len(steps_curvature), len(touched))
    for place, hit in enumerate(touched):
        slot = place % len(ring)
        oldest = ring[(slot + 1) % len(ring)]
        if hit:
            np.clip(ring[slot] - steps_curvature * oldest, -LIMIT, LIMIT, out=oldest)
        else:
            oldest[:] = ring[slot]
        windows.see(place, np.abs(oldest))
    return windows.shrinking()
