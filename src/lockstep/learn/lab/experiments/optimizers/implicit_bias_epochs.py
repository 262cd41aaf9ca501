"""Several equations: which solution, when Adam's scale is a mean over the epoch?

X theta = y with n equations in d > n unknowns, loss |y - X theta|^2 / n, from theta = 0. A fixed diagonal scale D moves
only in the span of D X', so the limit is the least-norm solution of its own norm,

    theta = D X' (X D X')^-1 y        least sum theta_i^2 / D_i
D = 1 for SGD (one equation at a time or all at once) and momentum, D_i = 1 / mean(X_i^2) for rescaled features; stable
iff alpha < n / (largest eigenvalue of X D X') with all equations at once. Simplified Adam's
D = diag(mean over the epoch of |grad_i|)^-1 changes as it goes: it solves the equations too, but its limit is the least
of no fixed norm, and not the least maximum norm either.
"""

from __future__ import annotations

from functools import cache, reduce

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.settings import setting
from lockstep.base.types.arrays import Array
from lockstep.base.types.plain import Json
from lockstep.learn.lab import ALWAYS, Check, Curve, Findings, Law, Picture, Progress, example
from lockstep.learn.lab.objectives.quadratic import least_norm_solution
from lockstep.learn.methods.optimizers import Momentum, Optimizer, Sgd, step

QUESTION = "With several equations, which solution does each optimizer find, and which one epoch-wise Adam?"
SOURCE = "Gunasekar, Lee, Soudry, Srebro 2018, sections 2 and 3"
REACHED = 1e-6


@dataclass(frozen=True, slots=True)
class Settings:
    """What is asked."""

    equations: int = setting(2, "n.", least=2, most=50)
    unknowns: int = setting(5, "Number of unknowns d, at least 2 n.", least=3, most=200)
    epochs: int = setting(4000, "Passes over the equations.", least=2000, most=50_000)
    momentum: float = setting(0.8, "Heavy-ball momentum beta.", least=0, below=1)


def run(settings: Settings, seed: int, progress: Progress) -> Findings:
    """Limits on random equations whose features have different sizes."""
    if settings.unknowns < 2 * settings.equations:
        raise BadInput(
            "must be at least twice the equations, so that there are many distinct solutions", "--set unknowns"
        )
    x, y = _equations(settings.equations, settings.unknowns, seed)
    one, rescaled = np.ones(settings.unknowns), 1 / (x * x).mean(axis=0)
    heavy = Momentum(settings.momentum)
    limits = {name: least_norm_solution(x, y, d) for name, d in (("one", one), ("rescaled", rescaled))}
    paths = [
        ("SGD, full batch", _walk(Sgd(), x, y, one, settings.epochs), limits["one"], one),
        ("SGD, batch size 1", _one_at_a_time(x, y, settings.epochs), limits["one"], one),
        ("momentum", _walk(heavy, x, y, one, settings.epochs), limits["one"], one),
        ("rescaled features", _walk(Sgd(), x, y, rescaled, settings.epochs), limits["rescaled"], rescaled),
    ]
    progress(1, 2)
    adam = _simplified_adam(x, y, settings.epochs)
    size = (x * x * rescaled).mean(axis=0)
    checks = [Check("mean square of rescaled features, largest distance from 1", 0.0, float(np.abs(size - 1).max()),
                    tolerance=1e-9, holds=ALWAYS)]  # fmt: skip
    for name, (first, *_, last), limit, d in paths:
        checks += [_close(name, x, y, last, limit, d), _close(f"{name}, known after one epoch", x, y, first, limit, d)]
        checks.append(_first_epoch(name, x, first, limit, d))
    checks += [_solves(x, y, adam[-1]), *_not_least()]
    named = [(name, path) for name, path, _, _ in paths] + [("simplified Adam, epoch mean", adam)]
    least = (("least l2", limits["one"]), ("least rescaled", limits["rescaled"]), ("least linf", least_maximum(x, y)))
    ends = (*((name, last) for name, (*_, last) in named), *least)
    progress(2, 2)
    return Findings(
        checks=tuple(checks),
        theory=(Law("l2_of_least_norm_solution", float(np.sqrt(limits["one"] @ limits["one"])), "X' (X X')^-1 y",
                    SOURCE),),
        rows=tuple(_row(name, theta, rescaled) for name, theta in ends),
        curves=tuple(_curve(name, path, x, y) for name, path in named),
        picture=Picture("epoch", "residual", log_x=True, log_y=True),
        conclusion="A fixed preconditioner finds the least-norm solution of its own norm; one that follows the gradient"
        " solves the equations but converges to another solution",
        assumptions=("from theta = 0; learning rates at half the stability limit, simplified Adam's falling as 1 / "
                     "sqrt(t)",),
    )  # fmt: skip


def _equations(equations: int, unknowns: int, seed: int) -> tuple[Array, Array]:
    """Normal coefficients, the last feature a fifth of the size of the first."""
    generator = np.random.default_rng(np.random.SeedSequence(seed))
    return generator.normal(size=(equations, unknowns)) * np.geomspace(1, 0.2, unknowns), generator.normal(
        size=equations
    )


def least_maximum(x: Array, y: Array, rounds: int = 20_000) -> Array:
    """Nearly the solution of X theta = y with the least maximum norm: averaged subgradient steps in the null space."""
    base = least_norm_solution(x, y, np.ones(x.shape[1]))
    null = np.linalg.svd(x)[2][len(y) :]
    best, theta = base, base.copy()
    stride = least = np.abs(base).max()
    for t in range(rounds):
        sizes = np.abs(theta)
        place = int(sizes.argmax())
        if sizes[place] < least:
            best, least = theta, sizes[place]
        slope = null[:, place] * np.sign(theta[place])
        length = float(np.sqrt(slope @ slope))
        if length == 0:
            break
        theta = theta - stride / np.sqrt(t + 1.0) * 0.3 * (slope / length) @ null
    return np.asarray(best)


def _walk(optimizer: Optimizer, x: Array, y: Array, scale: Array, epochs: int) -> list[Array]:
    """theta after every epoch of full gradients at half the edge, in the coordinates theta / sqrt(scale).

    The loss is half the sum of squares, whose edge is 2 over the largest eigenvalue.
    """
    root = np.sqrt(scale)
    inner = x * root
    rate = 1 / float(np.linalg.eigvalsh(inner @ inner.T).max())
    moved, path = np.zeros(x.shape[1]), []
    state = optimizer.start((moved,))
    for _ in range(epochs):
        gradient = (inner @ moved - y) @ inner
        (moved,), state = step(optimizer, (moved,), (gradient,), state, rate)
        path.append(moved * root)
    return path


def _one_at_a_time(x: Array, y: Array, epochs: int) -> list[Array]:
    theta, path = np.zeros(x.shape[1]), []
    rate = 1 / float((x * x).sum(axis=1).max())
    for _ in range(epochs):
        for row, right in zip(x, y, strict=True):
            theta = theta + rate * (right - row @ theta) * row
        path.append(theta)
    return path


def _simplified_adam(x: Array, y: Array, epochs: int) -> list[Array]:
    """The scale is 1 over the mean of |grad_i| over the epoch before; the rate falls as 1 / sqrt(t)."""
    theta, path = np.zeros(x.shape[1]), []
    base = float(np.abs(y).max() / np.abs(x).sum(axis=1).min())
    for t in range(epochs):
        gradients = (x @ theta - y)[:, np.newaxis] * x
        mean = np.abs(gradients).mean(axis=0)
        if not mean.all():
            break
        theta = theta - 0.2 * base / np.sqrt(t + 1.0) * gradients.mean(axis=0) / mean
        path.append(theta)
    return path


def _close(name: str, x: Array, y: Array, theta: Array, limit: Array, scale: Array) -> Check:
    """The path stays in the span, so what is still missing is the least-norm solution of the residual."""
    ahead = theta + least_norm_solution(x, y - x @ theta, scale)
    return Check(f"limit of {name}: largest error of a coordinate", 0.0, float(np.linalg.norm(ahead - limit)),
                 tolerance=REACHED * float(np.linalg.norm(limit)), holds=ALWAYS)  # fmt: skip


def _first_epoch(name: str, x: Array, theta: Array, limit: Array, scale: Array) -> Check:
    """What is missing from the limit shrinks by the maps of the steps; the first of heavy ball is plain descent."""
    if name == "SGD, batch size 1":
        longest = float((x * x).sum(axis=1).max())
        left = reduce(lambda missing, row: missing - row * (row @ missing) / longest, x, limit)
    else:
        inner = x * np.sqrt(scale)
        shrink = np.eye(len(limit)) - inner.T @ inner / np.linalg.norm(inner, 2) ** 2
        left = np.sqrt(scale) * (shrink @ (limit / np.sqrt(scale)))
    return Check(f"{name}: what the first epoch leaves of the way", float(np.linalg.norm(left)),
                 float(np.linalg.norm(limit - theta)), tolerance=1e-9 * float(np.linalg.norm(limit)),
                 holds=ALWAYS)  # fmt: skip


def _solves(x: Array, y: Array, theta: Array) -> Check:
    """The residual of a falling rate is of the size of its last steps."""
    return Check("simplified Adam solves the equations: residual", 0.0, float(np.abs(y - x @ theta).max()),
                 tolerance=0.05 * float(np.abs(y).max()), holds=ALWAYS)  # fmt: skip


@cache
def _not_least() -> tuple[Check, ...]:
    """What simplified Adam's limit is not, at one counterexample: the equations of seed 0, 2 in 5 unknowns."""
    x, y = _equations(2, 5, 0)
    *_, theta = _simplified_adam(x, y, 4000)
    least = float(np.abs(least_maximum(x, y)).max())
    size = float(np.abs(theta).max())
    other = least_norm_solution(x, y, np.ones(5))
    # The least largest entry is the most of |y'l| / |X'l|_1, which lies at an l that is orthogonal to a feature.
    across = np.array([x[1], -x[0]])
    known = float((np.abs(y @ across) / np.abs(x.T @ across).sum(axis=0)).max())
    return (
        Check("least maximum norm, by averaged steps", known, least, tolerance=2e-3 * known,
              holds=example("2 equations in 5 unknowns")),
        Check("simplified Adam converges to SGD's solution: difference", 0.0, float(np.abs(theta - other).max()) / size,
              tolerance=0.02, false_law=True, holds=example("2 equations in 5 unknowns")),
        Check("simplified Adam converges to least maximum norm", least, size, tolerance=0.02 * least, false_law=True,
              holds=example("2 equations in 5 unknowns")),
    )  # fmt: skip


def _row(name: str, theta: Array, rescaled: Array) -> Json:
    return {
        "method": name, "l1": float(np.abs(theta).sum()), "l2": float(np.sqrt(theta @ theta)),
        "linf": float(np.abs(theta).max()), "rescaled": float(np.sqrt((theta**2 / rescaled).sum())),
    }  # fmt: skip


def _curve(name: str, path: list[Array], x: Array, y: Array) -> Curve:
    """The largest residual at about evenly spaced logarithms of the epoch, until it is at the rounding."""
    epochs = np.unique(np.geomspace(1, len(path), 100).round().astype(int))
    size = np.array([np.abs(y - x @ path[epoch - 1]).max() for epoch in epochs])
    tiny = np.flatnonzero(size < 1e-12)
    stop = int(tiny[0]) if tiny.size else len(size)
    return Curve(name, epochs[:stop].astype(np.float64), size[:stop])
