"""Which update minimizes g'u + |u|^2 / alpha? One norm, one optimizer.

    least value = -(alpha / 4) |g|_*^2        u = -(alpha / 2) |g|_* v
The closed forms of `methods/norms` are compared with two ways that know nothing of dual norms. A linear function is
least at a corner of the unit ball: for l1 and linf all corners are tried, for the spectral norm of 2 x 2 matrices all
rotations and reflections. For p-norms plain gradient descent on the objective walks to its minimum.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.settings import setting
from lockstep.base.types.arrays import Array
from lockstep.learn.lab import ALWAYS, Check, Curve, Findings, Law, Picture, Progress, example
from lockstep.learn.methods.norms import Absolute, Euclidean, Maximum, Norm, Power, Spectral, least_value, steepest_step

QUESTION = "Which update u minimizes g'u + |u|^2 / alpha, for each norm |u|?"
SOURCE = "Boyd and Vandenberghe 2004, section 9.4; Bernstein and Newhouse 2024"
MOST_CORNERS = 12
SEARCH = 0.01
"""Share of the value within which descent on a p-norm ends, however far apart the entries are."""
POWERS = (1.25, 1.5, 2.0, 3.0, 4.0, 6.0)
METHODS = {"l1": "greedy coordinate descent", "l2": "gradient descent", "linf": "sign descent"}


@dataclass(frozen=True, slots=True)
class Settings:
    """What is asked."""

    gradient: tuple[float, ...] = setting((3.0, -4.0, 1.0), "The gradient g.", least=-1e6, most=1e6)
    matrix: tuple[float, ...] = setting(
        (3.0, -4.0, 1.0, 2.0), "Gradient of a 2 x 2 matrix, row by row.", least=-1e6, most=1e6
    )
    alpha: float = setting(
        0.5, "Step size alpha, which weighs the norm; the Euclidean step is -(alpha / 2) g.", least=1e-6, most=1e6
    )


def run(settings: Settings, seed: int, progress: Progress) -> Findings:
    """Closed forms beside enumeration and descent."""
    g, alpha = np.array(settings.gradient), settings.alpha
    matrix = _matrix(settings.matrix)
    if not 1 <= g.size <= MOST_CORNERS or not g.any() or not matrix.any():
        raise BadInput(f"needs 1 to {MOST_CORNERS} numbers, at least one of them not 0", "--set gradient")
    found: list[tuple[Norm, str, Array, float]] = [
        (Absolute(), METHODS["l1"], g, _best_corner(g, list(np.eye(g.size)), alpha)),
        *((Power(p), "gradient descent" if p == 2 else f"p = {p:g}", g, _descended(g, alpha, p)) for p in POWERS),
        (Maximum(), METHODS["linf"], g, _best_corner(g, [np.array(c) for c in product((-1, 1), repeat=g.size)], alpha)),
        (Spectral(), "U V'", matrix, _best_rotation(matrix, alpha)),
    ]
    progress(1, 1)
    rows, checks = [], []
    for norm, method, gradient, searched in found:
        value = least_value(norm, gradient, alpha)
        rows.append({
            "norm": norm.name, "method": method, "least_value": value, "found_value": searched,
            "step": (steepest_step(norm, gradient, alpha).ravel() + 0.0).tolist(),
        })  # fmt: skip
        error = SEARCH if isinstance(norm, Power) else 1e-6
        checks.append(
            Check(f"least value, {norm.name}, {method}", value, searched, tolerance=error * abs(value), holds=ALWAYS)
        )
        checks.append(Check(f"no lower value, {norm.name}, {method}", value, searched, tolerance=1e-9 * abs(value),
                            relation="at least", holds=ALWAYS))  # fmt: skip
    turned = "spectral value with both rows exchanged, which turns rotations into reflections"
    checks.append(Check(turned, _best_rotation(matrix, alpha), _best_rotation(matrix[::-1], alpha), holds=ALWAYS))
    checks += _methods(g, alpha) + _false_laws()
    return Findings(
        checks=tuple(checks),
        theory=(Law("least_value_l2", least_value(Euclidean(), g, alpha), "-(alpha / 4) |g|_*^2", SOURCE),),
        rows=tuple(rows),
        curves=_curves(g, alpha, [row["found_value"] for row in rows[1:-2]]),
        picture=Picture("p", "least_value", log_x=True),
        assumptions=(
            "least value: of g'u + |u|^2 / alpha; found value: the least that a search without dual norms finds",
        ),
        conclusion="Each norm has its optimizer, and each step scales with the dual norm of the gradient",
    )


def _matrix(entries: tuple[float, ...]) -> Array:
    if len(entries) != 4:
        raise BadInput(f"needs 4 numbers, got {len(entries)}", "--set matrix")
    return np.array(entries).reshape(2, 2)


def _best_corner(g: Array, corners: list[Array], alpha: float) -> float:
    """Least value over all lengths along the given corners of the unit ball; along v it is -(alpha / 4) (g'v)^2."""
    slopes = np.array([g @ corner for corner in corners])
    lengths = -alpha / 2 * slopes
    return float((lengths * slopes + lengths**2 / alpha).min())


def _best_rotation(matrix: Array, alpha: float) -> float:
    """Least value over the orthogonal 2 x 2 matrices, the corners of the spectral ball.

    Along the rotation by t the slope is (a + d) cos t + (c - b) sin t, at most the length of both; likewise along
    reflections.
    """
    (a, b), (c, d) = matrix
    rotated, reflected = np.hypot(a + d, c - b), np.hypot(a - d, b + c)
    return float(-alpha / 4 * max(rotated, reflected) ** 2)


def _descended(g: Array, alpha: float, p: float, most_steps: int = 4000) -> float:
    """Least value that gradient descent reaches before its steps change no number; small entries take most steps."""

    def value(u: Array) -> float:
        return float(g @ u + (np.abs(u) ** p).sum() ** (2 / p) / alpha)

    u, rate = g.copy(), alpha
    best = value(u)
    for _ in range(most_steps):
        size = (np.abs(u) ** p).sum() ** (1 / p)
        slope = g + 2 / alpha * size ** (2 - p) * np.copysign(np.abs(u) ** (p - 1), u)
        moved = u - rate * slope
        if (moved == u).all():
            break
        tried = value(moved)
        if tried < best:
            u, best = moved, tried
            rate *= 1.5
        else:
            rate /= 2
    return best


def _methods(g: Array, alpha: float) -> list[Check]:
    """The steps that have names of their own, as largest differences of a coordinate."""
    steepest = int(np.abs(g).argmax())
    named: dict[str, tuple[Norm, Array]] = {
        "l2": (Euclidean(), -alpha / 2 * g),
        "linf": (Maximum(), -alpha / 2 * np.abs(g).sum() * np.sign(g)),
        "l1": (Absolute(), -alpha / 2 * g[steepest] * np.eye(g.size)[steepest]),
    }
    return [
        Check(f"{METHODS[name]} is the step of {name}", 0.0, float(np.abs(steepest_step(norm, g, alpha) - u).max()),
              tolerance=1e-12 * float(np.abs(u).max()), holds=ALWAYS)
        for name, (norm, u) in named.items()
    ]  # fmt: skip


def _false_laws() -> list[Check]:
    """Rules that are printed or said and do not minimize, at one counterexample: g = (3, -4, 1), alpha = 1/2."""
    g, alpha = np.array([3.0, -4.0, 1.0]), 0.5
    scores: dict[str, tuple[Norm, Array]] = {
        "u = -alpha g / |g|_inf minimizes for l1": (Absolute(), -alpha * g / np.abs(g).max()),
        "signSGD with step alpha minimizes for linf": (Maximum(), -alpha * np.sign(g)),
    }
    return [
        Check(what, float(g @ u + norm.length(u) ** 2 / alpha), least_value(norm, g, alpha), tolerance=1e-9,
              false_law=True, holds=example("g = (3, -4, 1), alpha = 1/2"))
        for what, (norm, u) in scores.items()
    ]  # fmt: skip


def _curves(g: Array, alpha: float, found: list[float]) -> tuple[Curve, ...]:
    """The least value from l1 to linf, closed form and found."""
    p = np.geomspace(1.05, 50, 80)
    value = np.array([least_value(Power(float(one)), g, alpha) for one in p])
    ends = (least_value(Absolute(), g, alpha), least_value(Maximum(), g, alpha))
    return (
        Curve("-(alpha / 4) |g|_q^2", p, value, theory=True),
        Curve("l1, greedy coordinate descent", p[[0, -1]], np.full(2, ends[0]), theory=True),
        Curve("linf, sign descent", p[[0, -1]], np.full(2, ends[1]), theory=True),
        Curve("found by descent on the objective", np.array(POWERS), np.array(found), marks=True),
    )
