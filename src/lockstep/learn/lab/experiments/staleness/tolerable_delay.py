"""How much delay a small network bears, early and late: the limit follows step times curvature, not the epoch.

A quadratic with the curvature of the moment bears the largest tau with a lambda < 2 sin(pi / (2 (2 tau + 1))). On this
network the curvature falls with the cross-entropy, so it bears more delay late, and a step cut tenfold raises the limit
once more. At several moments the run is continued with a delay far inside and far beyond the limit of that moment: the
one goes on, the other grows. Curvature has a limit of its own: descent only settles where it is below 2 / a, shown on
(u v - 1)^2 / 2, whose minima have every curvature u^2 + v^2 from 2 on. Refuted: that training always bears less delay
late, and that late curvature may stay above 2 / a.
"""

from __future__ import annotations

import math

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.settings import setting
from lockstep.base.types.arrays import Array
from lockstep.base.types.plain import Json
from lockstep.learn.lab import ALWAYS, Check, Curve, Findings, Law, Picture, Progress, example, watched, when
from lockstep.learn.lab.descent.delayed import follow, reads
from lockstep.learn.lab.laws import largest_stable_step
from lockstep.learn.lab.objectives import Perceptron, digits_perceptron, sharpness

QUESTION = "Does training tolerate less delay late in a run than early?"
SOURCE = "curvature by power iteration; edge of the delayed recursion; Cohen et al. 2021 for sharpening"

FORMULA = "a lambda < 2 sin(pi / (2 (2 tau + 1)))"
LONGEST = 400
CONTINUED = 700
SEEN = CONTINUED // 7
"""Delay up to which a run swings often enough to grow: a swing takes four delays or more."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The run and its moments."""

    step_size: float = setting(
        0.2, "Step size, constant until it is cut tenfold after the last measurement.", least=0.02, most=2
    )
    moments: tuple[int, ...] = setting(
        (0, 100, 200, 400), "Steps after which the curvature is measured.", least=0, most=20_000
    )
    inside_frac: float = setting(0.25, "Delay well below the current limit, as a multiple of it.", above=0, below=1)
    beyond: float = setting(6.0, "Delay well above the current limit, as a multiple of it.", least=4, most=20)


def run(settings: Settings, seed: int, progress: Progress) -> Findings:
    """Curvature, tolerable delay and what happens inside and beyond."""
    objective, moments = digits_perceptron(), sorted(set(settings.moments))
    point, at = objective.start(seed), 0
    rows, checks = [], []
    *_, end = moments
    cases = [*((moment, settings.step_size) for moment in moments), (end, settings.step_size / 10)]
    for moment, step in watched(cases, progress):
        for _ in range(moment - at):
            point = point - settings.step_size * objective.gradient(point)
        at = moment
        rows.append(_row(objective, point, moment, step, settings, seed))
    for row in rows[:-1]:
        name = f"after {row['step']} steps, step {row['step_size']:g}"
        ratio = row["loss_beyond"] / row["loss_inside"]
        most = row["tolerable_delay"] * settings.beyond
        short, grows = (
            when(most < longest, f"a delay beyond the limit of less than {longest} updates")
            for longest in (LONGEST, SEEN)
        )
        checks += [
            Check(
                f"loss after / before, delay inside, {name}",
                1.0,
                row["loss_inside"] / row["loss"],
                relation="at most",
                holds=short,
            ),
            Check(f"loss with the delay beyond / inside, {name}", 1.0, ratio, relation="at least", holds=grows),
        ]
    early, (late, cut) = rows[0], rows[-2:]
    ratio = cut["tolerable_delay"] / max(early["tolerable_delay"], 1)
    what = "late training tolerates less delay, step cut tenfold"
    checks.append(Check(what, 1.0, ratio, relation="at most", false_law=True, holds=ALWAYS))
    expected = _by_arcsine(cut) / max(_by_arcsine(early), 1)
    what = "tolerable delay with the step cut tenfold over that at the start"
    checks.append(Check(what, expected, ratio, holds=ALWAYS))
    learned = late["loss"] / early["loss"]
    checks += [
        # With a step below 2 / curvature descent lowers the loss.
        Check("loss late in training over that at the start", 1.0, learned, relation="at most",
              holds=when(moments[-1] > moments[0], "at least two moments")),
        Check("step after the cut over that before", 0.1, cut["step_size"] / late["step_size"], tolerance=1e-12,
              holds=ALWAYS),
        Check("tolerable delay where far more is stable", LONGEST, tolerable_delay(1e-6),
              holds=example("a lambda = 1e-6")),
        *_settled(),
        _at_the_limit(rows),
    ]  # fmt: skip
    x = np.array([row["step"] for row in rows[:-1]], dtype=float)
    limits = np.array([row["tolerable_delay"] for row in rows], dtype=float)
    return Findings(
        checks=tuple(checks),
        theory=tuple(
            Law(f"tolerable delay after {row['step']} steps, step {row['step_size']:g}", float(row["tolerable_delay"]),
                FORMULA, "learn/lab/laws.py")
            for row in rows
        ),
        rows=tuple(rows),
        curves=(
            Curve("constant step, from the measured curvature", x, limits[:-1]),
            Curve("step cut tenfold", x[-1:], limits[-1:], marks=True),
        ),
        picture=Picture("step", "tolerable_delay_updates", log_y=True),
        conclusion=(
            f"with a constant step the tolerable delay goes from {rows[0]['tolerable_delay']} to "
            f"{rows[-2]['tolerable_delay']} as the curvature goes from {rows[0]['curvature']:.3g} to "
            f"{rows[-2]['curvature']:.3g}; the step cut tenfold allows {rows[-1]['tolerable_delay']}"
        ),
        assumptions=("a perceptron on 500 digits, full batches; the quadratic limit holds only near the measured "
                     "point",),
    )  # fmt: skip


def _settled(step: float = 0.1, steps: int = 3000) -> list[Check]:
    """Curvature of the minimum of (u v - 1)^2 / 2 where descent ends that starts beside one of curvature 25."""
    u, v = 5.0, 0.05
    for _ in range(steps):
        error = u * v - 1
        u, v = u - step * error * v, v - step * error * u
    return [
        Check(f"u v where descent converges, a = {step:g}", 1.0, u * v, tolerance=1e-9,
              holds=example("(u v - 1)^2 / 2")),
        Check(f"curvature where descent converges, a = {step:g}: at most 2 / a", 2 / step, u**2 + v**2,
              relation="at most", holds=example("(u v - 1)^2 / 2")),
        Check(f"late curvature stays above 2 / a, from 25, a = {step:g}", 2 / step, u**2 + v**2, relation="at least",
              false_law=True, holds=example("(u v - 1)^2 / 2")),
    ]  # fmt: skip


def tolerable_delay(step_curvature: float) -> int:
    """Largest delay at which a quadratic is stable; 0 where none is, LONGEST where more."""
    found = 0
    while found < LONGEST and largest_stable_step(found + 1) > step_curvature:
        found += 1
    return found


def _by_arcsine(row: Json) -> int:
    """The same for the quadratic of a row: 2 tau + 1 below pi / (2 arcsin(a lambda / 2))."""
    half = row["step_size"] * row["curvature"] / 2
    return 0 if half >= 1 else min(math.ceil((math.pi / (2 * math.asin(half)) - 1) / 2) - 1, LONGEST)


def _at_the_limit(rows: list[Json]) -> Check:
    """Whether the quadratic of every row is stable at its delay, where one is, and no longer at the next."""
    right = 0
    for row in rows:
        limit, product = row["tolerable_delay"], row["step_size"] * row["curvature"]
        stable = not limit or product < largest_stable_step(limit)
        right += stable and (limit == LONGEST or product >= largest_stable_step(limit + 1))
    return Check("moments whose delay is the last stable one", len(rows), right, holds=ALWAYS)


def _row(objective: Perceptron, point: Array, moment: int, step: float, settings: Settings, seed: int) -> Json:
    curvature = sharpness(objective, point, seed)
    limit = tolerable_delay(step * curvature)
    inside = _continued(objective, point, step, int(settings.inside_frac * limit))
    beyond = _continued(objective, point, step, min(int(settings.beyond * max(limit, 1)), LONGEST))
    return {
        "step": moment, "step_size": step, "curvature": curvature, "tolerable_delay": limit,
        "loss": float(objective.loss(point)),
        "loss_inside": inside, "loss_beyond": beyond,
    }  # fmt: skip


def _continued(objective: Perceptron, point: Array, step: float, delay: int) -> float:
    """Loss after more steps with a delay."""
    made = follow(
        reads(CONTINUED, delay), lambda x: objective.gradient(x[0])[None], lambda x: np.array([objective.loss(x[0])]),
        point[None], step, record_every=CONTINUED,
    )  # fmt: skip
    return float(made.losses[-1, 0])
