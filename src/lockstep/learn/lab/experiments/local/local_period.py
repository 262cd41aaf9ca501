"""How many local steps: fewer exchanges against more steps, and the best K.

With N(K) = N_1 (1 + c (K - 1)) steps to the target, computing T and an exchange X per round,

    seconds(K) = N(K) (T + X / K),   K* = sqrt((1 - c) X / (c T))
so the penalty c matters as much as X / T. Without noise and with workers whose data differ, reaching a fixed gap takes
steps in proportion to K - 1: the step must shrink for the bias. With equal data K costs nothing. Refuted:
K* = sqrt(X / T); the hours of a table of federated averaging that is handed on, whose rows list one number of
iterations and price another.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.settings import setting
from lockstep.base.types.arrays import Array
from lockstep.base.units import format_time
from lockstep.learn.lab import ALWAYS, Check, Curve, Findings, Law, Picture, Progress, example, watched, when
from lockstep.learn.lab.descent.workers import LocalMethod, run_rounds
from lockstep.learn.lab.objectives import WorkerQuadratics

QUESTION = "How many local steps between averages minimize the training time?"
SOURCE = "derivative of the training time by K; Karimireddy et al. 2020; Woodworth et al. 2020"

Number = Any
"""A number, or an array of them."""
Rows = Sequence[Mapping[str, float]]

STEP_SIZES = np.geomspace(1e-3, 0.49, 160)
ROUNDS = 600
FEDERATED_S = (0.5, 5.0)
"""Computing and exchange of the table: seconds of a step and of a round."""
FEDERATED = {1: (100e3, 139.0), 10: (150e3, 27.8), 20: (220e3, 21.0), 50: (400e3, 18.0)}
"""K: iterations, and hours as printed; those of K = 1 leave the computing out, the others price 100,000 iterations."""
FEDERATED_TABLE = "a published table of federated averaging, 0.5 s per step and 5 s per exchange"
WHOLE_S, ROUND_S = 0.8, 0.015
"""Computing of a step on one worker, and an exchange, for strong scaling."""
STRONG_SCALING = "a fixed batch, 0.8 s of compute, 15 ms per exchange"
LARGEST_PERIOD = 200
HALF = (0.5, 0.5, 5.0)
"""Penalty, computing and exchange in seconds of an example in which 1 - c shows."""
MISSED = 10.0
"""Loss at the end of local steps over the gap to reach, from which on it is the bias that asks for smaller steps."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Two workers with different data, and what a round costs."""

    curvatures: tuple[float, ...] = setting((1.0, 4.0), "Curvature h of each worker.", above=0, most=4)
    optima: tuple[float, ...] = setting((0.1, -0.1), "Optimum b of each worker.", least=-100, most=100)
    gap: float = setting(1e-5, "Target loss above the minimum.", above=0, most=1e-3)
    periods: tuple[int, ...] = setting(
        (1, 2, 4, 8, 16, 32), "Local steps K between averages.", least=1, most=LARGEST_PERIOD
    )
    penalty_frac: float = setting(
        0.056, "Penalty c: extra steps, as a fraction, per additional local step; for K*.", above=0, below=1
    )
    compute_s: float = setting(0.5, "Compute time T of one step.", above=0, most=1e6)
    exchange_s: float = setting(5.0, "Communication time X of one round.", above=0, most=1e6)


def run(settings: Settings, seed: int, progress: Progress) -> Findings:
    """Steps of tuned runs over K, and seconds over K with a penalty."""
    h, b = np.array(list(zip(settings.curvatures, settings.optima, strict=False))).T[:, :, None]
    periods = sorted(set(settings.periods))
    different, equal = [], []
    for period in watched(periods, progress):
        different.append(_fewest_steps(WorkerQuadratics(h, b), period, settings.gap))
        equal.append(_fewest_steps(WorkerQuadratics(np.ones_like(h), np.ones_like(b) * b[0]), period, settings.gap))
        if not (different[-1] and equal[-1]):
            raise BadInput(
                f"K = {period} starts inside the gap, or needs more than {ROUNDS} rounds; choose another gap",
                "--set gap",
            )
    best = best_period(settings.penalty_frac, settings.compute_s, settings.exchange_s)
    cheapest = _shortest(settings.penalty_frac, settings.compute_s, settings.exchange_s)
    x = np.array(periods, dtype=float)
    # Seconds fall from K to K + 1 while K (K + 1) < K*^2.
    nearest = max(1.0, min(math.ceil((math.sqrt(1 + 4 * best**2) - 1) / 2), LARGEST_PERIOD))
    checks = [Check("K of the shortest run", nearest, float(cheapest), holds=ALWAYS), *_other_bests()]
    more = x != 1
    slope = _slope(np.log(x[more] - 1), np.log(np.array(different)[more]))
    biased = when(
        more.sum() > 2 and _missed(WorkerQuadratics(h, b), min(p for p in periods if p > 1)) > MISSED * settings.gap,
        f"3 periods above 1, and data so different that local steps of 1 / L converge at least {MISSED:g} times the "
        "gap away",
    )  # fmt: skip
    checks.append(Check("slope of steps over K - 1, different data, log-log", 1.0, slope, tolerance=0.1, holds=biased))
    what = f"steps with identical data, K = {periods[-1]}: at most one round more than K = 1"
    checks.append(Check(what, equal[0] + periods[-1], equal[-1], relation="at most", holds=ALWAYS))
    checks += [
        Check(f"steps with identical data, K = {period}: whole rounds of plain descent",
              _whole_rounds(abs(1 - float(b[0, 0])), settings.gap, period), steps, holds=ALWAYS)
        for period, steps in zip(periods, equal, strict=True)
    ]  # fmt: skip
    naive = math.sqrt(settings.exchange_s / settings.compute_s)
    checks.append(Check("the best K is sqrt(X / T)", naive, float(cheapest), tolerance=0.5, false_law=True,
                        holds=when(abs(naive - nearest) > 1.5, "sqrt(X / T) more than 1.5 away from K*")))  # fmt: skip
    rows = tuple(
        {"local_steps": period, "steps": steps, "rounds": steps / period,
         "time_s": run_s(steps, period, settings.compute_s, settings.exchange_s)}
        for period, steps in zip(periods, different, strict=True)
    )  # fmt: skip
    return Findings(
        checks=(*checks, *_federated_checks(), *_strong_scaling()),
        theory=(
            Law("best K", best, "sqrt((1 - c) X / (c T))", "derivative of the training time"),
            Law("compute fraction of a round at the best K", _efficiency(settings, best), "K T / (K T + X)",
                "counting"),
        ),
        rows=rows,
        curves=(
            Curve("different data, tuned step", x, np.array(different, dtype=float), marks=True),
            Curve("identical data, tuned step", x, np.array(equal, dtype=float), marks=True),
            Curve("in proportion to K - 1", x[more], different[-1] * (x[more] - 1) / (x[-1] - 1), theory=True),
        ),
        picture=Picture(
            "local_steps", "steps", log_x=True, log_y=True,
            title="Steps to the target by local steps between averages, workers with different and with identical data",
        ),
        conclusion=_conclusion(rows, equal, settings, cheapest),
        assumptions=("no gradient noise; the step size is tuned for every K; whole rounds",),
    )  # fmt: skip


def run_s(steps: Number, period: Number, compute_s: Number, exchange_s: Number) -> Number:
    """Seconds of a run of `steps` with an exchange after every `period` of them; broadcasts."""
    return steps * (compute_s + exchange_s / period)


def best_period(penalty_frac: float, compute_s: float, exchange_s: float) -> float:
    """K* for a penalty c above 0, as a real number; below 1 it means 1."""
    return math.sqrt((1 - penalty_frac) * exchange_s / (penalty_frac * compute_s))


def _shortest(penalty: float, compute_s: float, exchange_s: float) -> int:
    """The whole K up to `LARGEST_PERIOD` of the shortest run, by trying all."""
    counts = np.arange(1, LARGEST_PERIOD + 1)
    return int(counts[run_s(1 + penalty * (counts - 1), counts, compute_s, exchange_s).argmin()])


def _other_bests() -> list[Check]:
    """K* at a penalty of a half, where 1 - c shows: whole, and by trying real numbers; and the K at both ends."""
    half, compute_s, exchange_s = HALF
    fine = np.linspace(1, exchange_s / compute_s, 9001)
    seconds = run_s(1 + half * (fine - 1), fine, compute_s, exchange_s)
    return [
        Check("K of the shortest run at a penalty of a half, real numbers", best_period(*HALF),
              float(fine[seconds.argmin()]), tolerance=1e-3, holds=example("c = 0.5, X = 10 T")),
        Check("K of the shortest run at a penalty of a half", 3, _shortest(*HALF), holds=example("c = 0.5, X = 10 T")),
        Check("K of the shortest run where exchanges are cheap", 1, _shortest(0.5, 1.0, 0.5),
              holds=example("c = 0.5, X = T / 2")),
        Check("K of the shortest run where local steps cost nothing", 200, _shortest(1e-9, 0.5, 5.0),
              holds=example("c = 1e-9, K of at most 200")),
    ]  # fmt: skip


def _slope(x: Array, y: Array) -> float:
    """Of the line through the points, by least squares; not a number for fewer than two."""
    n = len(x)
    return float((n * (x @ y) - x.sum() * y.sum()) / (n * (x @ x) - x.sum() ** 2))


def penalty_frac(steps: float, every_step: float, period: int) -> float:
    """c of a run with that period above 1, which took `steps` where `every_step` were enough with K = 1."""
    return (steps / every_step - 1) / (period - 1)


def _conclusion(rows: Rows, equal: list[float], settings: Settings, cheapest: int) -> str:
    """Which K of the table is fastest, what the longest costs, and the best one at the penalty per step."""
    quickest = min(rows, key=lambda row: row["time_s"])
    first, last = rows[0], rows[-1]
    said = f"of these, K = {quickest['local_steps']} is fastest: {format_time(quickest['time_s'])}"
    if last is not first:
        said += (
            f"; K = {last['local_steps']} needs {last['steps'] / first['steps']:.3g} times the steps of K = "
            f"{first['local_steps']} with these workers' data and {equal[-1] / equal[0]:.3g} times with identical data"
        )
    return (
        f"{said}. If each additional local step added {settings.penalty_frac:.3g} of the steps, K = {cheapest} "
        "would be best"
    )


def _missed(objective: WorkerQuadratics, period: int) -> float:
    """Loss above the lowest where rounds of that many local steps of 1 / L end."""
    step = 1 / float(objective.curvatures.max())
    return float(objective.loss(objective.local_fixed_point(step, period))) - objective.lowest


def _federated_checks() -> tuple[Check, ...]:
    """The hours of the table's own iterations, round by round, beside the printed ones; and the K its penalties say."""
    found = []
    for period, (iterations, printed_h) in FEDERATED.items():
        rounds_h = iterations / period * (period * FEDERATED_S[0] + FEDERATED_S[1]) / 3600
        hours = run_s(iterations, period, *FEDERATED_S) / 3600
        found.append(Check(f"hours of {iterations:,.0f} iterations, K = {period}", hours, rounds_h, tolerance=1e-9,
                           holds=example(FEDERATED_TABLE)))  # fmt: skip
        what = f"{printed_h:g} hours for K = {period}, as published"
        found.append(Check(what, printed_h, rounds_h, tolerance=0.05, false_law=True, holds=example(FEDERATED_TABLE)))
    penalties = [penalty_frac(FEDERATED[k][0], FEDERATED[1][0], k) for k in FEDERATED if k > 1]
    cheapest = min(FEDERATED, key=lambda k: run_s(FEDERATED[k][0], k, *FEDERATED_S))
    best = [best_period(c, *FEDERATED_S) for c in (max(penalties), min(penalties))]
    found.append(Check("fastest K of the table, below the K* of its penalties", best[1], cheapest, relation="at most",
                       holds=example(FEDERATED_TABLE)))  # fmt: skip
    return tuple(found)


def _strong_scaling() -> tuple[Check, ...]:
    """A fixed batch over n workers, `WHOLE_S` of computing a step and `ROUND_S` an exchange: efficiency over K."""

    def efficiency(workers: int, period: int) -> float:
        return float(WHOLE_S / workers / run_s(1, period, WHOLE_S / workers, ROUND_S))

    following = [efficiency(n, n // 8) for n in (8, 32, 128, 512)]
    return (
        Check("128 workers, K = 4: compute fraction", 1 / (1 + 128 * ROUND_S / (4 * WHOLE_S)), efficiency(128, 4),
              tolerance=1e-12, holds=example(STRONG_SCALING)),
        Check("K = n / 8: compute fraction, largest change over n", 0.0, float(np.ptp(following)),
              tolerance=1e-12, holds=example(STRONG_SCALING)),
        Check("K = 4 keeps the compute fraction, n from 8 to 512", efficiency(8, 4), efficiency(512, 4),
              tolerance=0.1, false_law=True, holds=example(STRONG_SCALING)),
    )  # fmt: skip


def _fewest_steps(objective: WorkerQuadratics, period: int, gap: float) -> float:
    """Steps to the gap with the best of many step sizes, one per trial."""
    h, b = objective.curvatures[:, None, :], objective.optima[:, None, :]
    method = LocalMethod(STEP_SIZES[None, :, None])
    path = run_rounds(
        lambda y: h * (y - b), objective.workers, np.ones((len(STEP_SIZES), 1)), method, [period] * ROUNDS
    )
    above = objective.loss(path) - objective.lowest > gap
    last = ROUNDS - above[::-1].argmax(axis=0)
    rounds = np.where(above.any(axis=0), last + 1, 0)
    *_, missed = above
    usable = rounds[~missed]
    return float(usable.min() * period) if usable.size else 0.0


def _whole_rounds(distance: float, gap: float, period: int) -> float:
    """Steps of descent on (x - b)^2 / 2 from that distance to the gap at the largest step size, rounded up."""
    steps = math.log(math.sqrt(2 * gap) / distance) / math.log(1 - STEP_SIZES.max())
    return float(math.ceil(steps / period) * period)


def _efficiency(settings: Settings, period: float) -> float:
    return period * settings.compute_s / (period * settings.compute_s + settings.exchange_s)
