"""Where local steps end when workers have different data: at a biased point, exactly, and what removes the bias.

    plain     x = sum w_i b_i / sum w_i,   w_i = 1 - (1 - a h_i)^K
    FedProx   w_i = (1 - (1 - a (h_i + mu))^K) h_i / (h_i + mu)
    SCAFFOLD  x = sum h_i b_i / sum h_i, the optimum
Workers have 1/2 h_i (x - b_i)^2. The bias grows with K, and is the same for 2 workers and for 64 of the same two kinds.
Workers that take more steps than others in a round count for more. Refuted: that the bias grows with the number of
workers, that FedProx removes it, that unequal numbers of local steps keep the objective.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.settings import setting
from lockstep.base.types.arrays import Array
from lockstep.learn.lab import ALWAYS, Check, Curve, Findings, Law, Picture, Progress, watched, when
from lockstep.learn.lab.descent.workers import LocalMethod, run_rounds
from lockstep.learn.lab.objectives import WorkerQuadratics

QUESTION = "Where do local steps converge when workers have different data?"
SOURCE = "fixed point of one round; Li et al. 2020 (FedProx); Karimireddy et al. 2020 (SCAFFOLD)"

CLOSE, BIASED = 1e-9, 1e-2
MOST_STEPS = 400_000
"""Of a run: those of one worker in all its rounds."""
STILL = 1e-13
"""Changes of the last rounds together, in units of the optima, from which on a run stands still."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Two kinds of workers."""

    curvatures: tuple[float, ...] = setting((1.0, 4.0), "Curvature h of each kind of worker.", least=0.1, most=10)
    optima: tuple[float, ...] = setting((1.0, -1.0), "Optimum b of each kind of worker.", least=-10, most=10)
    step_size: float = setting(0.1, "Size of a local step.", least=0.02, most=0.1)
    proximal: float = setting(1.0, "Proximal coefficient mu of FedProx.", least=0, most=9)
    periods: tuple[int, ...] = setting(
        (1, 2, 5, 10, 20, 50, 100), "Local steps K between averages.", least=1, most=1000
    )


def run(settings: Settings, seed: int, progress: Progress) -> Findings:
    """Fixed points of the three methods over K."""
    h, b = np.array(list(zip(settings.curvatures, settings.optima, strict=False))).T
    objective = WorkerQuadratics(h[:, None], b[:, None])
    best = float(objective.optimum[0])
    periods = sorted(set(settings.periods))
    step = settings.step_size
    methods = {
        "local SGD": LocalMethod(step),
        "FedProx": LocalMethod(step, proximal=settings.proximal),
        "SCAFFOLD": LocalMethod(step, scaffold=True),
    }
    laws = {
        "local SGD": [float(objective.local_fixed_point(step, period)[0]) for period in periods],
        "FedProx": [_proximal_point(h, b, step, settings.proximal, period) for period in periods],
        "SCAFFOLD": [best] * len(periods),
    }
    found: dict[str, list[float]] = {name: [] for name in methods}
    checks = []
    for place, period in enumerate(watched(periods, progress)):
        for name, method in methods.items():
            end, settled = _end(h, b, method, period)
            settles = when(settled, f"rounds that converge within {MOST_STEPS:,} local steps")
            found[name].append(end)
            what = f"limit of {name}, K = {period}"
            checks.append(Check(what, laws[name][place], end, tolerance=CLOSE, holds=settles))
    many, _ = _end(np.tile(h, 32), np.tile(b, 32), methods["local SGD"], periods[-1])
    checks.append(Check(f"limit with 32 of each kind, K = {periods[-1]}", laws["local SGD"][-1], many, tolerance=CLOSE,
                        holds=ALWAYS))  # fmt: skip
    x = np.array(periods, dtype=float)
    return Findings(
        checks=(*checks, *_unequal_periods(step, periods[-1]), *_false_laws(laws, found, best, periods)),
        theory=tuple(
            Law(
                f"limit of local SGD, K = {period}", value, "w_i = 1 - (1 - a h_i)^K", "learn/lab/objectives/workers.py"
            )
            for period, value in zip(periods, laws["local SGD"], strict=True)
        ),
        curves=(
            *(Curve(f"{name}, simulated", x, np.array(values), marks=True) for name, values in found.items()),
            *(Curve(f"{name}, exact", x, np.array(values), theory=True) for name, values in laws.items()),
        ),
        picture=Picture("local_steps", "end_of_the_rounds", log_x=True),
        conclusion=(
            f"the optimum is {best:.4g}; with K = {periods[-1]} local SGD converges to {found['local SGD'][-1]:.4g}, "
            f"FedProx to {found['FedProx'][-1]:.4g}, SCAFFOLD to {found['SCAFFOLD'][-1]:.4g}"
        ),
        assumptions=("no gradient noise; all workers participate in every round",),
    )


def _end(h: Array, b: Array, method: LocalMethod, period: int, rounds: int = 30) -> tuple[float, bool]:
    """Where rounds of that many local steps end, and whether they stand still within `MOST_STEPS`."""
    while True:
        path = run_rounds(
            lambda y: h[:, None, None] * (y - b[:, None, None]), len(h), np.zeros((1, 1)), method, [period] * rounds
        )
        *_, before, then, last = path.ravel()
        settled = bool(np.ptp([before, then, last]) < STILL)
        rounds += rounds
        if settled or rounds * period > MOST_STEPS:
            return float(last), settled


def _proximal_point(h: Array, b: Array, step: float, strength: float, period: int) -> float:
    """The fixed point of FedProx: each worker pulls towards its own optimum and the common start."""
    weights = (1 - (1 - step * (h + strength)) ** period) * h / (h + strength)
    return float((weights * b).sum() / weights.sum())


def _unequal_periods(step: float, period: int) -> tuple[Check, ...]:
    """Two workers of curvature 1 with optima +1 and -1, the first with `period` local steps, the second with one."""
    counts, optima = (period, 1), (1.0, -1.0)
    weights = [1 - (1 - step) ** count for count in counts]
    law = (weights[0] - weights[1]) / sum(weights)
    x = 0.0
    for _ in range(1000):
        ends = []
        for count, optimum in zip(counts, optima, strict=True):
            own = x
            for _ in range(count):
                own -= step * (own - optimum)
            ends.append(own)
        x = sum(ends) / 2
    unequal = when(period > 1, "a period above 1")
    return (
        Check(
            f"limit where one worker takes {period} steps a round, the other 1", law, x, tolerance=CLOSE, holds=ALWAYS
        ),
        Check("unequal local steps keep the objective", 0.0, x, tolerance=1e-3, false_law=True, holds=unequal),
    )


def _false_laws(
    laws: dict[str, list[float]], found: dict[str, list[float]], best: float, periods: list[int]
) -> tuple[Check, ...]:
    """That the bias goes away, where the law of the fixed points says that it does not."""
    proximal, local = (
        when(abs(laws[name][-1] - best) >= BIASED, f"a bias of at least {BIASED:g}")
        for name in ("FedProx", "local SGD")
    )
    removed = f"FedProx removes the bias, K = {periods[-1]}"
    return (
        Check(removed, best, found["FedProx"][-1], tolerance=1e-3, false_law=True, holds=proximal),
        Check(f"local steps converge to the optimum, K = {periods[-1]}", best, found["local SGD"][-1], tolerance=1e-3,
              false_law=True, holds=local),
    )  # fmt: skip
