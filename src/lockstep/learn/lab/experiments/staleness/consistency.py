"""The same workers under four ideas of consistency: who waits for whom, and what the loss makes of it in seconds.

    synchronous   one step per barrier, the mean of n gradients                     seconds per step: E max of n times
    asynchronous  every gradient is an update of step a / n, nobody waits           n / mean time updates per second
    bounded:s     asynchronous, but nobody is more than s steps ahead of the slowest
    cut-off:c     asynchronous, but gradients older than c updates are refused
A step of a / n per gradient moves as far per gradient as a synchronous step and leaves nearly the same floor, so what
differs is time. All on one noisy quadratic, times drawn from one law.
"""

from __future__ import annotations

import math

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.settings import setting
from lockstep.base.types.arrays import Array
from lockstep.base.types.plain import Json
from lockstep.learn.lab import ALWAYS, Check, Curve, Findings, Law, Picture, Progress, mean_and_error, watched, when
from lockstep.learn.lab.descent.delayed import follow
from lockstep.learn.lab.descent.updates import Updates, asynchronous, cut_off, worker_times_s
from lockstep.learn.lab.laws import floor
from lockstep.learn.lab.objectives import Quadratic, spectrum
from lockstep.learn.lab.statistics import SignNoise
from lockstep.simulate.play import Law as TimeLaw
from lockstep.simulate.play import parse_law

QUESTION = "What do a barrier, bounded staleness and no waiting at all cost in seconds and in loss?"
SOURCE = "event simulation; Lyapunov floors; Ho et al. 2013; Dean et al. 2012"

POINTS = 80
SLICES = 2000
"""Of equal probability, for the spread of a barrier."""
SETTLED = 5.0
"""Relaxation times of the slowest direction in a run whose later half is taken for the floor."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Workers, bounds, and the problem."""

    workers: int = setting(8, "Number of workers, all equally fast on average.", least=2, most=256)
    law: str = setting("lognormal:mean=1s,cv=0.5", "Law of a worker's time per gradient, as in lockstep stragglers.")
    bound: int = setting(
        2, "Most steps that a worker of the bounded run may be ahead of the slowest.", least=0, most=1000
    )
    oldest: int = setting(
        10, "Largest delay that the server of the cut-off run accepts, in updates.", least=0, most=10_000
    )
    step_size: float = setting(0.2, "Size of a synchronous step; the largest curvature is 1.", least=1e-3, most=1)
    condition: float = setting(10.0, "Condition number of the quadratic.", least=1, most=1e3)
    noise_std: float = setting(1.0, "Standard deviation of the gradient noise in every direction.", least=0.3, most=1e3)
    rounds: int = setting(250, "Gradients that each worker computes in a run.", least=50, most=20_000)
    trials: int = setting(64, "Independent runs on one schedule of times.", least=8, most=10_000)


def run(settings: Settings, seed: int, progress: Progress) -> Findings:
    """Loss over time of the four."""
    law = parse_law(settings.law, "--set law")
    times_s = worker_times_s(law, np.ones(settings.workers), settings.rounds, np.random.default_rng(seed))
    objective = Quadratic(spectrum("logarithmic", 10, settings.condition), np.zeros(10))
    schedules = {
        "synchronous": _barrier(times_s),
        "asynchronous": asynchronous(times_s),
        f"bounded:{settings.bound}": asynchronous(times_s, settings.bound),
        f"cut-off:{settings.oldest}": cut_off(times_s, settings.oldest),
    }
    curves, rows, floors = [], [], {}
    for place, (name, updates) in enumerate(watched(schedules.items(), progress)):
        losses, every = _losses(updates, objective, settings, name == "synchronous", seed + place)
        at_s = np.concatenate([[0.0], updates.end_s])[::every][: len(losses)]
        mean, error = losses.mean(axis=1), losses.std(axis=1, ddof=1) / np.sqrt(settings.trials)
        curves.append(Curve(name, at_s, mean, half_ci95=1.96 * error))
        floors[name] = mean_and_error(losses[len(losses) // 2 :].mean(axis=0))
        rows.append(_row(name, updates, floors[name][0]))
    exact = _floor(objective, settings.step_size, 0, settings.noise_std / np.sqrt(settings.workers))
    delayed = _floor(objective, settings.step_size / settings.workers, settings.workers - 1, settings.noise_std)
    gain = schedules["asynchronous"].per_s / (schedules["synchronous"].per_s * settings.workers)
    end = np.array([0.0, float(times_s.sum(axis=0).max())])
    return Findings(
        checks=_checks(settings, law, times_s, schedules, floors, exact, delayed),
        theory=(
            Law("floor, synchronous", exact, "sum h P_00 / 2", "Lyapunov (learn/lab/laws.py)"),
            Law("floor, every delay n - 1", delayed, "sum h P_00 / 2", "Lyapunov (learn/lab/laws.py)"),
            Law(
                "seconds per barrier", law.expected_max_s(settings.workers), "E max of n times", "simulate/play/law.py"
            ),
        ),
        rows=tuple(rows),
        curves=(*curves, Curve("floor, synchronous", end, np.full(2, exact), theory=True)),
        picture=Picture("time_s", "loss", log_y=True),
        conclusion=(
            f"without waiting the workers compute {gain:.3g} times as many gradients per second as with a barrier, at "
            "nearly the same floor"
        ),
        assumptions=(
            "reads and updates take no time",
            "one schedule of times; noise differs between trials",
        ),
    )


def _barrier(times_s: Array) -> Updates:
    """One update per step, when the slowest is done, on parameters that nobody has changed."""
    end_s = np.cumsum(times_s.max(axis=1))
    steps = np.arange(len(end_s))
    return Updates(end_s, np.zeros(len(end_s), dtype=int), steps, len(end_s) * times_s.shape[1])


def _losses(updates: Updates, objective: Quadratic, settings: Settings, mean: bool, seed: int) -> tuple[Array, int]:
    """(losses (records, trials), updates between two records)."""
    share = settings.workers if mean else 1
    shape = (settings.trials, objective.dimension)
    noise = SignNoise.of(settings.noise_std / np.sqrt(share), shape, np.random.default_rng(seed))
    step = settings.step_size * share / settings.workers
    every = max(1, len(updates) // POINTS)
    made = follow(
        updates.read, objective.gradient, objective.loss, np.ones(shape), step,
        noise=noise.draw, record_every=every,
    )  # fmt: skip
    return made.losses, every


def _row(name: str, updates: Updates, loss: float) -> Json:
    return {
        "consistency": name, "updates": len(updates), "gradients_per_s": updates.computed / float(updates.end_s[-1]),
        "mean_delay": float(updates.delay.mean()), "largest_delay": int(updates.delay.max()), "floor": loss,
    }  # fmt: skip


def _floor(objective: Quadratic, step: float, delay: int, noise_std: float) -> float:
    return float(sum(h * floor(step, h, delay, noise_std=noise_std) / 2 for h in objective.curvatures.tolist()))


def _barrier_spread_s(law: TimeLaw, workers: int) -> float:
    """Standard deviation of the largest of n times: that of a few hundred runs is too small where they are short."""
    middles = (np.arange(SLICES) + 0.5) / SLICES
    return float(np.std([law.quantile_s(float(share) ** (1 / workers)) for share in middles]))


def _checks(
    settings: Settings, law: TimeLaw, times_s: Array, schedules: dict[str, Updates],
    floors: dict[str, tuple[float, float]], exact: float, delayed: float,
) -> tuple[Check, ...]:  # fmt: skip
    """Floors, seconds and delays."""
    barrier_s = np.diff(schedules["synchronous"].end_s)
    mean_s, error_s = float(barrier_s.mean()), _barrier_spread_s(law, settings.workers) / math.sqrt(len(barrier_s))
    free = schedules["asynchronous"]
    nobody_s = settings.workers / law.mean_s
    spread_frac = float(times_s.std(ddof=1) / times_s.mean()) / math.sqrt(times_s.size)
    late = float(free.delay[len(free) // 2 :].mean())
    sync, free_floor = floors["synchronous"], floors["asynchronous"]
    clock = (
        Check(
            "seconds per barrier", law.expected_max_s(settings.workers), mean_s, standard_error=error_s, holds=ALWAYS
        ),
        # A run begins and ends in the middle of the steps of nearly everybody.
        Check("updates per second, asynchronous", nobody_s, free.per_s, nobody_s * spread_frac,
              2 / settings.rounds * nobody_s, holds=ALWAYS),
        Check("mean delay, asynchronous", settings.workers - 1.0, late,
              tolerance=2 * settings.workers / settings.rounds, holds=ALWAYS),
    )  # fmt: skip
    settled = settings.rounds * settings.step_size >= SETTLED * settings.condition and bool(np.isfinite(delayed))
    long = when(settled, f"rounds x step_size of at least {SETTLED:g} x condition, so that the start no longer matters")
    return (
        *clock,
        Check("floor, synchronous", exact, sync[0], standard_error=sync[1], tolerance=0.05 * exact,
              runs=settings.trials, holds=long),
        Check("floor, asynchronous, by the mean delay", delayed, free_floor[0], free_floor[1], 0.05 * delayed,
              runs=settings.trials, holds=long),
    )  # fmt: skip
