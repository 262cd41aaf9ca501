"""Where compression without memory stalls or diverges, and error feedback does not.

    three ranks, top-1, f_i = <a_i, x>^2 + |x|^2 / 4,  a_i = (-3, 2, 2) and its rotations, from (1, 1, 1):
        without memory every step multiplies x by 1 + 11 a / 6, for any a > 0;   dense: by 1 - 7 a / 6
    sign of noisy gradients, 4 with probability 1/4 and -1 else (mean 1/4):  x moves uphill by a / 2 a step
    f = eps |x1 + x2| + |x1 - x2|, scaled signs:  x1 + x2 never changes
    a small gradient beside a large alternating one, top-1:  never sent without memory
Refuted beside it: the memory e = g - C(g), which forgets older residuals, that feedback makes a payload unbiased (the
sum becomes right, no single one does), and that it lowers what one payload loses.

Sources: Beznosikov et al., "On biased compression for distributed learning", 2020, example 1; Karimireddy et al.,
"Error feedback fixes SignSGD", ICML 2019, counterexamples 1 and 2.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.settings import setting
from lockstep.base.types.arrays import Array
from lockstep.learn.lab import ALWAYS, Check, Curve, Domain, Findings, Law, Picture, Progress, example, when
from lockstep.learn.lab.laws import energy_above, threshold_of
from lockstep.learn.lab.statistics import mean_and_error, streams
from lockstep.learn.methods.compression import Compressor, ErrorFeedback, NoCompression, OneBit, Sign, TopK, exchange

QUESTION = "Where does compression without error feedback stall or diverge, and does error feedback fix it?"
SOURCE = "Beznosikov et al. 2020; Karimireddy et al. 2019"

DIRECTIONS = np.array([[-3.0, 2, 2], [2, -3, 2], [2, 2, -3]])
TOP_ONE = TopK(1 / 3)
LOUD = 10.0
"""Size of the large gradient beside the small one."""
ARRIVES = 10.0
"""Step size times steps after which the slowest run that converges, at exp(-a) a step, has come far enough."""
CONSTANT_GRADIENT = "the gradient (1, 0.1), top-1"
RUNS = 10
"""Of payloads with memory, which depend on those before them: only runs are independent."""
SLOPE = 0.25
"""eps of the function whose sum of coordinates signs never change."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Steps of descent."""

    step_size: float = setting(0.01, "Step size of every run.", above=0, most=0.05)
    steps: int = setting(2000, "Number of steps of the runs that must converge.", least=500, most=100_000)
    repetitions: int = setting(4000, "Independent runs of signSGD with noise.", least=100, most=1_000_000)


def run(settings: Settings, seed: int, progress: Progress) -> Findings:
    """The four failures, each with and without memory."""
    a, steps = settings.step_size, settings.steps
    runs = {
        "dense": _three_ranks(NoCompression(), a, steps),
        "top-1": _three_ranks(TOP_ONE, a, steps),
        "top-1 with feedback": _three_ranks(ErrorFeedback(TOP_ONE), a, steps),
    }
    progress(1, 4)
    long = when(a * steps >= ARRIVES, f"step_size x steps of at least {ARRIVES:g}")
    checks = [*_diverging(runs, a, long), *_signs(settings, seed)]
    progress(2, 4)
    checks += _stalled(a, steps, long)
    progress(3, 4)
    checks += [*_forgotten(a, steps, long), *_not_unbiased(seed)]
    progress(4, 4)
    x, left = np.arange(steps + 1, dtype=float), float(runs["top-1 with feedback"][-1])
    law = (1 + 11 * a / 6) ** x
    return Findings(
        checks=tuple(checks),
        theory=(
            Law("growth per step, top-1 without feedback", 1 + 11 * a / 6, "1 + 11 a / 6", "gradient (-5.5, 4.5, 4.5)"),
            Law("contraction per step, dense", 1 - 7 * a / 6, "1 - 7 a / 6", "mean Hessian on (1, 1, 1)"),
            Law("drift of signSGD with noise", a / 2, "-a (P(g > 0) - P(g < 0))", "Karimireddy et al. 2019"),
        ),
        curves=(
            Curve.until_divergence("top-1, law", x, law, theory=True),
            *(Curve.until_divergence(name, x, np.maximum(y, 1e-30)) for name, y in runs.items()),
        ),
        picture=Picture("step", "distance", log_y=True),
        conclusion=f"three ranks grow {runs['top-1'][200]:.4g} times in 200 steps of top-1; with feedback "
        f"{left:.2g} of the distance is left after {steps:,}",
        assumptions=("exact gradients except in the example of signSGD with noise",),
    )


def _three_ranks(made: Compressor, a: float, steps: int) -> Array:
    """Distance from the optimum after every step, over that at the start."""
    point = np.ones(3)
    states: Any = [made.start(point) for _ in DIRECTIONS]
    (draw,) = streams(0, 1)
    path = [point]
    for _ in range(steps):
        gradients = [2 * (toward @ point) * toward + point / 2 for toward in DIRECTIONS]
        found = exchange(made, gradients, states, [draw] * 3)
        states, point = found.states, point - a * found.mean
        path.append(point)
    distances: Array = np.linalg.norm(path, axis=1) / np.linalg.norm(np.ones(3))
    return distances


def _diverging(runs: dict[str, Array], a: float, long: Domain) -> tuple[Check, ...]:
    """Growth over 200 steps by formula, and where the others end."""
    grown = (1 + 11 * a / 6) ** 200
    *_, plain = runs["top-1"]
    return (
        Check("three ranks, top-1: growth in 200 steps", grown, float(runs["top-1"][200]), tolerance=1e-9 * grown,
              holds=ALWAYS),
        Check("three ranks, dense: fraction left after 200 "
              "steps", (1 - 7 * a / 6) ** 200, float(runs["dense"][200]), tolerance=1e-9,
              holds=ALWAYS),
        Check("three ranks, top-1 with feedback: converges", 1.0, float(runs["top-1 with feedback"][-1] < 1e-3),
              holds=long),
        Check("three ranks, top-1 converges without feedback", 1.0, float(plain < 1), false_law=True,
              holds=ALWAYS),
    )  # fmt: skip


def _signs(settings: Settings, seed: int) -> tuple[Check, ...]:
    """Drift per step of plain descent and of signs, on gradients of mean 1/4."""
    (draw,) = streams(seed, 1)
    gradients = np.where(draw.random((100, settings.repetitions)) < 0.25, 4.0, -1.0)
    plain = -settings.step_size * gradients
    sent = Sign()
    packed = np.array([sent.decompress(sent.compress(row, None, draw)[0]) for row in gradients], dtype=np.float64)
    moved = -settings.step_size * packed
    return (
        Check("drift of plain descent: -a / 4", -settings.step_size / 4, *mean_and_error(plain), holds=ALWAYS),
        Check("drift of signSGD: +a / 2, uphill", settings.step_size / 2, *mean_and_error(moved), holds=ALWAYS),
    )


def _stalled(a: float, steps: int, long: Domain) -> tuple[Check, ...]:
    """x1 + x2 under scaled signs on eps |x1 + x2| + |x1 - x2|, from (1, 1)."""
    odd = 2 * (steps // 2) + 1
    plain, corrected = _two_slopes(OneBit(), a, odd), _two_slopes(ErrorFeedback(OneBit()), a, steps)
    return (
        Check("scaled signs: x1 + x2 stays 2", 2.0, float(plain.sum()), tolerance=1e-9, holds=ALWAYS),
        Check("scaled signs: |x1 - x2| swings by 2 a", 2 * a, float(np.ptp(plain)), tolerance=1e-9, holds=ALWAYS),
        Check("scaled signs with feedback: |x1 + x2| falls below 1", 1.0, float(abs(corrected.sum()) < 1), holds=long),
    )  # fmt: skip


def _two_slopes(made: Compressor, a: float, steps: int) -> Array:
    """(x1, x2) after the steps."""
    point, state = np.ones(2), made.start(np.ones(2))
    (draw,) = streams(0, 1)
    for _ in range(steps):
        along, across = (np.copysign(1.0, value) for value in (point.sum(), point[0] - point[1]))
        gradient = SLOPE * along + across * np.array([1.0, -1.0])
        payload, state = made.compress(gradient, state, draw)
        point = point - a * made.decompress(payload)
    return point


def _forgotten(a: float, steps: int, long: Domain) -> tuple[Check, ...]:
    """A quadratic coordinate beside one with a gradient of plus and minus 10 in turn; what is left of the first."""
    no_memory, short_memory, memory = (_quiet(kind, a, steps) for kind in ("none", "last", "all"))
    return (
        Check("small coordinate without feedback", 1.0, no_memory, holds=ALWAYS),
        Check("small coordinate with e = g - C(g)", 1.0, short_memory, holds=ALWAYS),
        Check("e = g - C(g) makes the small coordinate "
              "converge", 0.0, short_memory, tolerance=a * 2 * LOUD, false_law=True,
              holds=when(a * 2 * LOUD <= 0.5,
                         "step_size up to 0.025, at which the large coordinate oscillates by at most 1/2")),
        Check("small coordinate with feedback", 0.0, memory, tolerance=a * 2 * LOUD, holds=long),
    )  # fmt: skip


def _quiet(memory: str, a: float, steps: int) -> float:
    """x2 after the steps: top-1 of (alternating 10, x2) with a memory of nothing, the last residual, or all of them."""
    quiet, residual, made = 1.0, np.zeros(2), TopK(0.5)
    (draw,) = streams(0, 1)
    for at in range(steps):
        gradient = np.array([LOUD * (-1) ** at, quiet])
        wanted = gradient + residual
        sent = made.decompress(made.compress(wanted, None, draw)[0])
        residual = {"none": np.zeros(2), "last": gradient - _top(gradient), "all": wanted - sent}[memory]
        quiet -= a * sent[1]
    return float(quiet)


def _top(vector: Array) -> Array:
    """Top-1 of two entries."""
    return np.where(np.abs(vector) == np.abs(vector).max(), vector, 0.0)


def _not_unbiased(seed: int) -> tuple[Check, ...]:
    """Single payloads against sums of them, and the loss of one payload with and without memory."""
    made, gradient = ErrorFeedback(TopK(0.5)), np.array([1.0, 0.1])
    (draw,) = streams(seed, 1)
    state, sent = made.start(gradient), []
    for _ in range(1000):
        payload, state = made.compress(gradient, state, draw)
        sent.append(made.decompress(payload)[1])
    (plain, of_plain), (fed, error) = (mean_and_error(_losses(memory, seed)) for memory in (False, True))
    lost = 1 - energy_above(threshold_of(0.1))
    return (
        # The cut of 500 entries lies where that of a law does up to its spread, which moves the loss by 1 / 500.
        Check("loss of a payload without memory", lost, plain, of_plain, tolerance=lost / 100, runs=RUNS,
              holds=example("top-k 10 % of 500 Gaussian entries")),
        Check("the first payload with feedback is unbiased", 0.1, float(sent[0]), false_law=True,
              holds=example(CONSTANT_GRADIENT)),
        Check("mean payload with feedback", 0.1, float(np.mean(sent)), tolerance=1.1 / 1000,
              holds=example(CONSTANT_GRADIENT)),
        Check("feedback divides the loss of a payload by 5", plain / 5, fed, error, tolerance=plain / 5, runs=RUNS,
              false_law=True, holds=example("top-k 10 % of 500 Gaussian entries")),
    )  # fmt: skip


def _losses(memory: bool, seed: int) -> Array:
    """Mean relative loss of a payload of top-10 % on Gaussian gradients, of every run: 100 payloads from no memory."""
    plain = TopK(0.1)
    made: Compressor = ErrorFeedback(plain) if memory else plain
    means = []
    for draw in streams(seed, RUNS):
        state, lost = made.start(np.zeros(500)), []
        for _ in range(100):
            gradient = draw.standard_normal(500)
            wanted = gradient + state[0] if memory else gradient
            payload, state = made.compress(gradient, state, draw)
            lost.append(((made.decompress(payload) - wanted) ** 2).sum() / (wanted**2).sum())
        means.append(np.mean(lost))
    return np.array(means)
