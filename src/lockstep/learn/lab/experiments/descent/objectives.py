"""What the lab minimizes: for every objective what is known, and the same found again by measuring.

Gradients beside differences of the loss, the gradient at the exact optimum, the curvature by power iteration beside the
bound L, and the variance of mini-batch gradients beside tr(Sigma) / B, where Sigma is the covariance of single samples.
Where L, mu and the lowest loss are known, descent with 1 / L stays below (1 - mu / L)^t of the first gap.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.settings import setting
from lockstep.base.types.arrays import Array
from lockstep.learn.lab import ALWAYS, Check, Curve, Findings, Law, Picture, Progress, mean_and_error, watched
from lockstep.learn.lab.descent.delayed import follow
from lockstep.learn.lab.objectives import (
    LANDSCAPES,
    Logistic,
    Objective,
    Quadratic,
    digits_logistic,
    digits_perceptron,
    sharpness,
    spectrum,
    unequal_workers,
)

QUESTION = "Which objectives does the lab minimize, and what is known about each?"
SOURCE = "closed forms in learn/lab/objectives; digits: Alpaydin and Kaynak 1998"

WIDTH = 1e-5
STEPS = 400


@dataclass(frozen=True, slots=True)
class Settings:
    """Size of the quadratics and of a mini-batch."""

    dimension: int = setting(50, "Dimension of the quadratics.", least=1, most=10_000)
    condition: float = setting(100.0, "Condition number of the quadratics.", least=1, most=1e8)
    batch: int = setting(32, "Samples per mini-batch of digits, drawn with replacement.", least=1, most=1797)
    draws: int = setting(
        400, "Number of mini-batches drawn to measure the variance of a gradient.", least=50, most=100_000
    )


def run(settings: Settings, seed: int, progress: Progress) -> Findings:
    """A row per objective."""
    ones = np.ones(settings.dimension)
    curvatures = spectrum("logarithmic", settings.dimension, settings.condition)
    logistic = digits_logistic(0.01, 4)
    unequal = unequal_workers(
        8, settings.dimension, condition=settings.condition, shift=1.0, curvature_spread=0.3, seed=seed
    )
    perceptron = digits_perceptron()
    everything: dict[str, tuple[Objective, Array | None, Array]] = {
        "quadratic": (Quadratic(curvatures, ones), ones, np.zeros_like(ones)),
        "unequal workers": (unequal, unequal.optimum, np.zeros_like(ones)),
        "logistic, digits": (logistic, logistic.optimum(), np.zeros(logistic.dimension)),
        "perceptron, digits": (perceptron, None, perceptron.start(seed)),
        **{name: (one, None, np.full(one.dimension, 0.7)) for name, one in LANDSCAPES.items()},
    }
    rows, checks, curves = [], [], []
    for name, (objective, optimum, point) in watched(everything.items(), progress):
        measured = sharpness(objective, point, seed)
        checks += _checks(name, objective, optimum, point, measured, seed)
        if optimum is not None:
            curves += _descents(name, objective, point)
            beyond = float((curves[-2].y / curves[-1].y).max())
            checks.append(Check(f"gap of {name} over its bound, at most", 1.0, beyond, tolerance=1e-6,
                                relation="at most", holds=ALWAYS))  # fmt: skip
        rows.append({
            "objective": name, "parameters": objective.dimension, "L": objective.smoothness, "curvature": measured,
            "mu": objective.strong_convexity, "lowest": objective.lowest,
        })  # fmt: skip
    return Findings(
        checks=(*checks, _noise_check(logistic, settings, seed)),
        theory=(
            Law("L of the logistic regression", logistic.smoothness, "lambda_max(X'X/N)/2 + r", "Boehning 1992"),
            Law("zeta of the unequal workers", unequal.heterogeneity, "root mean |grad f_i|^2 at the optimum", "exact"),
        ),
        rows=tuple(rows),
        curves=tuple(curves),
        picture=Picture("step", "loss_above_the_lowest", log_y=True),
        conclusion=f"{len(rows)} objectives; the curvature at the start never exceeds L",
        assumptions=("curvature at the start of a run by 60 power iterations; the perceptron has no known L",),
    )


def _descents(name: str, objective: Objective, point: Array) -> list[Curve]:
    """The gap of descent with 1 / L, and its bound."""
    smoothness, lowest = float(objective.smoothness or 1), float(objective.lowest or 0)
    every = np.arange(STEPS)
    made = follow(every, objective.gradient, objective.loss, point[None], 1 / smoothness, record_every=10)
    gap = made.losses[:, 0] - lowest
    bound = gap[0] * (1 - objective.strong_convexity / smoothness) ** made.steps
    kept = gap > 1e-12
    x = made.steps[kept].astype(float)
    return [Curve(name, x, gap[kept]), Curve(f"{name}, bound", x, bound[kept], theory=True)]


def _checks(
    name: str, objective: Objective, optimum: Array | None, point: Array, measured: float, seed: int
) -> list[Check]:
    """Gradient by differences, gradient at the optimum, curvature within the bound."""
    direction = np.random.default_rng(seed).standard_normal(objective.dimension)
    direction /= np.linalg.norm(direction)
    ahead, behind = (float(objective.loss(point + sign * WIDTH * direction)) for sign in (1.0, -1.0))
    slope = float(objective.gradient(point) @ direction)
    scale = 1 + abs(slope)
    found = [Check(f"slope of {name}", slope, (ahead - behind) / (2 * WIDTH), tolerance=1e-5 * scale, holds=ALWAYS)]
    if optimum is not None:
        largest = float(np.abs(objective.gradient(optimum)).max())
        found.append(Check(f"gradient of {name} at the optimum", 0.0, largest, tolerance=1e-10, holds=ALWAYS))
    if objective.smoothness is not None:
        bound = objective.smoothness
        found.append(
            Check(f"curvature of {name}", bound, measured, tolerance=1e-5 * bound, relation="at most", holds=ALWAYS)
        )
    return found


def _noise_check(logistic: Logistic, settings: Settings, seed: int) -> Check:
    """Variance of a mini-batch gradient at the start beside that of one sample over the batch."""
    start, samples = np.zeros(logistic.dimension), len(logistic.classes)
    mean = logistic.gradient(start)
    errors = np.full((samples, logistic.num_classes), 1 / logistic.num_classes)
    errors[np.arange(samples), logistic.classes] -= 1
    squared = (logistic.inputs**2).sum(1) * (errors**2).sum(1)
    trace = float(squared.mean() - (mean**2).sum())
    generator = np.random.default_rng(seed)
    distances = [
        float(((logistic.part(generator.integers(samples, size=settings.batch)).gradient(start) - mean) ** 2).sum())
        for _ in range(settings.draws)
    ]
    got, error = mean_and_error(np.array(distances))
    return Check(f"variance of gradients of {settings.batch} digits", trace / settings.batch, got, standard_error=error,
                 holds=ALWAYS)  # fmt: skip
