"""Among all solutions, which one does an optimizer find? The least in its own norm.

One equation a'theta = y, loss (y - a'theta)^2, many unknowns. From theta_0 the preconditioned step

    theta <- theta - alpha D grad,   D = diag(|a_i|^-s)
moves only along D a, so it ends at theta_0 + D a (y - a'theta_0) / (a'D a): of all solutions the nearest to theta_0 in
the norm sum theta_i^2 / D_i. From 0 with y = 1 that is theta_i = a_i^(1 - s) / sum_j a_j^(2 - s). s = 0: SGD, least
Euclidean norm; s = 1: sign descent and simplified Adam, all |theta_i| equal, least maximum norm 1 / |a|_1; s = 2:
rescaled features, least sum of (a_i theta_i)^2. The residual shrinks by 1 - 2 alpha a'D a a step, so it converges iff
alpha < 1 / a'D a; with momentum beta iff alpha < (1 + beta) / a'D a, to the same solution.

Simplified Adam divides by |grad| itself, D = diag(|grad|)^-1: every step has the length alpha, so it needs a falling
rate whose sum reaches the solution. At a constant rate the residual ends in a band as wide as one step, alpha |a|_1.
"""

from __future__ import annotations

import math

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.settings import setting
from lockstep.base.types.arrays import Array
from lockstep.base.types.plain import Json
from lockstep.learn.lab import ALWAYS, Check, Curve, Domain, Findings, Law, Picture, Progress, example, watched
from lockstep.learn.lab.laws import rate
from lockstep.learn.lab.objectives.quadratic import least_norm_solution
from lockstep.learn.methods.optimizers import Momentum, Optimizer, Sgd, Sign, step

QUESTION = "Among all solutions of one equation, which one does each optimizer find, and below which step size?"
SOURCE = "Gunasekar, Lee, Soudry, Srebro, 'Characterizing implicit bias in terms of optimization geometry', 2018"
MOST_CURVES = 6
NEAR = 0.99
"""Of the largest stable rate, from which on a run is looked at beside the edge."""
SHARE = 0.2
"""Of the largest stable rate; at one half, one step solves one equation."""
NAMES = {0.0: "SGD", 1.0: "scaled by |a|", 2.0: "rescaled features"}


@dataclass(frozen=True, slots=True)
class Settings:
    """What is asked."""

    features: tuple[float, ...] = setting((1.0, 0.1, 0.01), "Coefficients a of the equation.", least=1e-3, most=1e3)
    target: float = setting(1.0, "Right-hand side y.", above=0, most=1e3)
    steps: int = setting(4000, "Steps of each run.", least=100, most=100_000)
    momentum: float = setting(0.9, "Heavy-ball momentum beta.", least=0, most=0.98)
    powers: tuple[float, ...] = setting(
        (0.0, 0.5, 1.0, 1.5, 2.0), "Exponents s of the preconditioner.", least=0, most=4
    )


@dataclass(frozen=True, slots=True)
class Path:
    """Residuals y - a'theta before each step and at the end, and where theta ended."""

    residual: Array
    theta: Array

    @property
    def left(self) -> float:
        """The residual at the end."""
        *_, last = self.residual
        return float(last)

    @property
    def diverged(self) -> bool:
        """Whether the residual has grown."""
        first, *_ = self.residual
        return not abs(self.left) <= abs(first)


def run(settings: Settings, seed: int, progress: Progress) -> Findings:
    """Limits and edges of every method on one equation."""
    a, y = np.array(settings.features), settings.target
    if a.size < 2:
        raise BadInput("needs at least 2 coefficients; with fewer there is only one solution", "--set features")
    rows, checks = [], []
    found: list[tuple[float, Array]] = []
    for s in watched(settings.powers, progress):
        path = _scaled(a, y, s, SHARE / _slope(a, s), settings.steps)
        limit = nearest(a, y, a**-s)
        name = NAMES.get(s, f"power {s:g}")
        rows.append(_row(name, a, path.theta, 1 / _slope(a, s)))
        checks += [_close(f"limit of {name}", limit, path.theta), *_edge(name, a, y, s, settings.steps)]
        found.append((s, path.theta))
        checks.append(Check(f"residual of {name} after 10 steps, over that at the start", (1 - 2 / 5) ** 10,
                            float(path.residual[10] / path.residual[0]), tolerance=1e-12, holds=ALWAYS))  # fmt: skip
    for name, path, limit, bound, left in _others(settings, a, y):
        rows.append(_row(name, a, path.theta, bound))
        checks.append(_close(f"limit of {name}", limit, path.theta, left))
    checks += [*_momentum_edge(a, y, settings), *_band(a), *_projection(a, y), _printed_series()]
    return Findings(
        checks=tuple(checks),
        theory=tuple(
            Law(f"theta_{i + 1}_power_{s:g}", float(one), "a^(1-s) / sum a^(2-s)", SOURCE)
            for s in settings.powers for i, one in enumerate(nearest(a, y, a**-s))
        ),
        rows=tuple(rows), curves=_curves(a, y, found), picture=Picture("power", "theta", log_y=True),
        conclusion="Every method solves the equation; each converges to the solution of least norm in its own norm",
        assumptions=(f"from theta = 0, at {SHARE:g} of the largest stable learning rate unless stated otherwise",
                     "simplified Adam's learning rate falls as 1 / t; it is not stable at any constant rate"),
    )  # fmt: skip


def nearest(a: Array, y: float, scale: Array, start: Array | float = 0.0) -> Array:
    """The solution of a'theta = y nearest to `start` in the norm sum (theta_i - start_i)^2 / scale_i."""
    return least_norm_solution(a[np.newaxis], np.array([y]), scale, start)


def _slope(a: Array, s: float) -> float:
    """a'D a."""
    return float((a ** (2 - s)).sum())


def _walk(optimizer: Optimizer, a: Array, y: float, rates: Array, scale: Array, start: Array | float = 0.0) -> Path:
    """Steps on (y - a'theta)^2 in the coordinates theta / sqrt(scale), where D is the identity."""
    root = np.sqrt(scale)
    inner, moved = root * a, (np.zeros_like(a) + start) / root
    state, residual = optimizer.start((moved,)), np.empty(len(rates) + 1)
    for at, alpha in enumerate(rates):
        residual[at] = y - inner @ moved
        (moved,), state = step(optimizer, (moved,), (-2 * residual[at] * inner,), state, float(alpha))
    residual[-1] = y - inner @ moved
    return Path(residual, moved * root)


def _scaled(a: Array, y: float, s: float, rate: float, steps: int, start: Array | float = 0.0) -> Path:
    return _walk(Sgd(), a, y, np.full(steps, rate), a**-s, start)


def _others(settings: Settings, a: Array, y: float) -> list[tuple[str, Path, Array, float | None, float]]:
    """(name, path, limit, stable rates, what is left) of momentum and of sign descent with a falling rate."""
    one, edge = np.ones_like(a), (1 + settings.momentum) / _slope(a, 0)
    heavy = _walk(Momentum(settings.momentum), a, y, np.full(settings.steps, SHARE * edge), one)
    sign = _walk(Sign(), a, y, _falling(a, y, settings.steps), one)
    limit = nearest(a, y, one)
    left = _left_of_momentum(settings.momentum, settings.steps) * float(np.abs(limit).max())
    return [
        (f"momentum {settings.momentum:g}", heavy, limit, edge, left),
        ("simplified Adam", sign, nearest(a, y, 1 / a), None, 2 * _last_rate(settings)),
    ]


def _left_of_momentum(beta: float, steps: int) -> float:
    """Share of the residual, and so of every coordinate, that heavy ball leaves: r <- (1 + beta - p) r - beta r before.

    p = 2 alpha a'a is 2 (1 + beta) times `SHARE`.
    """
    pull = 2 * SHARE * (1 + beta)
    before, now = 1.0, 1 - pull
    for _ in range(steps - 1):
        before, now = now, (1 + beta - pull) * now - beta * before
    return abs(now)


def _falling(a: Array, y: float, steps: int) -> Array:
    """Rates c / t whose sum passes |theta_i| = y / |a|_1 within ten steps."""
    return np.asarray(y / np.abs(a).sum() / 2.5 / np.arange(1, steps + 1))


def _last_rate(settings: Settings) -> float:
    return float(_falling(np.array(settings.features), settings.target, settings.steps)[-1])


def _edge(name: str, a: Array, y: float, s: float, steps: int) -> list[Check]:
    """Converges one per cent below 1 / a'D a and diverges one per cent above."""
    inside, outside = (_scaled(a, y, s, share / _slope(a, s), max(steps, 2000)) for share in (NEAR, 1 / NEAR))
    return [
        Check(f"{name} below its stability limit: residual", 0.0, inside.left, tolerance=1e-6 * y, holds=ALWAYS),
        Check(f"{name} above its stability limit: diverges (1 = yes)", 1.0, float(outside.diverged), holds=ALWAYS),
    ]


def _momentum_edge(a: Array, y: float, settings: Settings) -> list[Check]:
    """Heavy ball: alpha < (1 + beta) / a'a. Inside, steps until the roots of its recursion leave nothing."""
    beta, one = settings.momentum, np.ones_like(a)
    method, edge = Momentum(beta), (1 + beta) / _slope(a, 0)
    inside, outside = (
        _walk(method, a, y, np.full(_steps_inside(beta), share * edge), one) for share in (NEAR, 1 / NEAR)
    )
    return [
        _settled("momentum", beta, ALWAYS),
        _settled("momentum 0.5", 0.5, example("both roots are real")),
        Check("momentum below its stability limit: residual", 0.0, inside.left, tolerance=1e-6 * y, holds=ALWAYS),
        Check("momentum above its stability limit: diverges (1 = yes)", 1.0, float(outside.diverged), holds=ALWAYS),
    ]


def _steps_inside(beta: float) -> int:
    """Steps of heavy ball beside its edge until nothing is left."""
    return math.ceil(math.log(np.finfo(float).eps) / math.log(rate(2 * NEAR * (1 + beta), 0, beta)))


def _settled(name: str, beta: float, holds: Domain) -> Check:
    """The last of those steps takes what is left below a rounding, by the roots of the recursion."""
    decay = math.log(float(np.abs(np.roots([1, 2 * NEAR * (1 + beta) - 1 - beta, beta])).max()))
    return Check(f"{name} below its stability limit: logarithm of what its steps leave",
                 math.log(np.finfo(float).eps) + decay / 2, _steps_inside(beta) * decay,
                 tolerance=-decay / 2, holds=holds)  # fmt: skip


def _band(a: Array) -> list[Check]:
    """Sign descent at a constant rate ends in a band one step wide, and not at the solution; in units of y."""
    stride = 1 / (90 + 0.09)
    alpha = stride / float(np.abs(a).sum())
    *_, before, last = _walk(Sign(), a, 1.0, np.full(300, alpha), np.ones_like(a)).residual.tolist()
    return [
        Check("width of the oscillation of sign descent at a constant rate, in "
              "steps", 1.0, abs(before - last) / stride,
              tolerance=1e-9, holds=ALWAYS),
        Check("sign descent at a constant rate reaches the solution", 0.0, min(abs(before), abs(last)),
              tolerance=1e-6, false_law=True, holds=ALWAYS),
    ]  # fmt: skip


def _projection(a: Array, y: float) -> list[Check]:
    """From elsewhere than 0 the limit is the projection of the start, in each norm, not the least norm."""
    start = np.cumsum(np.ones_like(a))
    paths = ((NAMES[s], s, _scaled(a, y, s, SHARE / _slope(a, s), steps=200, start=start)) for s in (0.0, 1.0))
    return [
        _close(f"limit of {name} from another initial point", nearest(a, y, a**-s, start), path.theta)
        for name, s, path in paths
    ]


def _printed_series() -> Check:
    """sum of (1 - 2 alpha |a|^2)^t over all t, printed as 1 / (1 - 2 alpha |a|^2): right is 1 / (2 alpha |a|^2)."""
    ratio = 1 - 2 * 0.3 * 1.0101
    return Check("the geometric series of the steps sums to 1 / (1 - 2 alpha |a|^2)", 1 / ratio,
                 float((ratio ** np.arange(200)).sum()), tolerance=1e-6, false_law=True,
                 holds=example("alpha = 0.3, |a|^2 = 1.0101"))  # fmt: skip


def _close(what: str, limit: Array, theta: Array, tolerance: float = 0.0) -> Check:
    """Largest difference of a coordinate, beside the largest coordinate."""
    return Check(what + ": largest error of a coordinate", 0.0, float(np.linalg.norm(theta - limit, np.inf)),
                 tolerance=1e-6 * float(np.abs(limit).max()) + tolerance, holds=ALWAYS)  # fmt: skip


def _row(name: str, a: Array, theta: Array, stable_below: float | None) -> Json:
    """The solution that was found, and its lengths."""
    return {
        "method": name, "stable_below": stable_below, "theta": theta.tolist(),
        "l2": float(np.sqrt(theta @ theta)), "linf": float(np.abs(theta).max()),
        "rescaled": float(np.sqrt(((a * theta) ** 2).sum())),
    }  # fmt: skip


def _curves(a: Array, y: float, found: list[tuple[float, Array]]) -> tuple[Curve, ...]:
    """Every coordinate of the solution over the power, by law and found."""
    powers = np.linspace(0, max(2.0, *(s for s, _ in found)), 81)
    law = np.array([nearest(a, y, a**-s) for s in powers])
    places = range(min(a.size, MOST_CURVES))
    return (
        *(Curve(f"theta_{i + 1}, a = {a[i]:g}", powers, law[:, i], theory=True) for i in places),
        *(Curve(f"theta_{i + 1}, found", np.array([s for s, _ in found]), np.array([theta[i] for _, theta in found]),
                marks=True) for i in places),
    )  # fmt: skip
