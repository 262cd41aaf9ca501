"""Two bounds that are often taken for one: on the gap of clocks (who waits), on the age of gradients (who is refused).

    clock gap   a worker waits while the slowest is more than s steps behind (stale synchronous parallel). With
                speeds that stay as they are, everybody ends at the rate of the slowest; slowness that comes and goes
                averages out. The delay in updates is not bounded by s.
    age         the server refuses gradients that missed more than c updates. Nobody waits; work is thrown away. With
                c = 0 and n equal workers 1 / n of the gradients count.
Refuted: that a clock gap keeps the mean speed of unequal workers.
"""

from __future__ import annotations

import math

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.settings import setting
from lockstep.base.types.plain import Json
from lockstep.learn.lab import ALWAYS, Check, Curve, Findings, Law, Picture, Progress, mean_and_error, watched, when
from lockstep.learn.lab.descent.bounded import best_run
from lockstep.learn.lab.descent.updates import Updates, asynchronous, cut_off, worker_times_s
from lockstep.simulate.play import Constant, Uniform
from lockstep.simulate.play import Law as TimeLaw

QUESTION = "What does bounding the clock gap between workers cost, and what bounding the age of gradients?"
SOURCE = "Ho et al. 2013 (stale synchronous parallel); event simulation"

SIZES = np.geomspace(0.05, 1.6, 24)
CONDITION, TARGET_FRAC, RUNS, RUN_STEPS = 30.0, 0.01, 40, 40
"""A race to a hundredth of the loss of a quadratic: step sizes to try, condition number, runs, steps of a worker."""
APART = 0.95, 1.05
"""Factors on the times of that race, so that workers do not end together."""
CYCLE_SPREAD_FRAC = 0.01
"""Spread of nearly equal times, so that no two end together."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Workers, bounds, and the size of a run."""

    workers: int = setting(16, "Number of workers, half of them fast and half slow.", least=2, most=512)
    slow_factor: float = setting(1.5, "Time per step of the slow half relative to the fast half.", least=1.1, most=100)
    bounds: tuple[int, ...] = setting(
        (0, 1, 2, 5, 10, 50),
        "Bounds to compare: clock gaps in steps, and largest accepted ages in updates.",
        least=0,
        most=10_000,
    )
    slow_steps_frac: float = setting(
        0.1, "Fraction of steps that are slow when slowdowns are transient.", least=0, most=1
    )
    steps: int = setting(3000, "Steps of each worker.", least=500, most=100_000)


def run(settings: Settings, seed: int, progress: Progress) -> Findings:
    """Steps per second of a worker under clock gaps, and shares of the gradients that count under ages."""
    bounds = sorted(set(settings.bounds))
    reached = settings.steps / 2 * (1 - 1 / settings.slow_factor)
    if bounds[-1] > reached:
        raise BadInput(
            f"must reach a gap of {bounds[-1]} in half of the steps; the largest that does is {reached:.0f}",
            "--set bounds",
        )
    slowdown = np.where(np.arange(settings.workers) < settings.workers // 2, 1.0, settings.slow_factor)
    generator = np.random.default_rng(seed)
    constant = worker_times_s(Constant(1.0), slowdown, settings.steps, generator)
    transient = _transient(settings, generator, settings.steps)
    nearly = worker_times_s(_nearly_one(), np.ones(settings.workers), settings.steps, generator)
    rows, races, lasting, passing = [], [], [], []
    for bound in watched(bounds, progress):
        kept, moving = asynchronous(constant, bound), asynchronous(transient, bound)
        lasting.append(_steps_per_s(kept, settings.workers))
        passing.append(_steps_per_s(moving, settings.workers))
        refusing = cut_off(nearly, bound)
        rows.append(_row(bound, kept, lasting[-1], passing[-1], refusing))
        races.append(_race(settings, bound, seed))
    fast = settings.workers // 2
    free = (fast + (settings.workers - fast) / settings.slow_factor) / settings.workers
    x = np.array(bounds, dtype=float)
    return Findings(
        checks=(
            *_checks(settings, rows, free, transient, nearly),
            *_times(settings, transient, nearly),
            *_in_step(settings, bounds, races, seed),
            Check("steps/s with persistent speeds, no bound", free,
                  _steps_per_s(asynchronous(constant), settings.workers), tolerance=4 / settings.steps, holds=ALWAYS),
        ),
        theory=(
            Law("steps/s with a bounded clock gap, persistent "
                "speeds", 1 / settings.slow_factor, "1 / slowest time", "Ho 2013"),
            Law("steps/s without a bound, persistent speeds", free, "mean of 1 / t_i",
                "simulate/failures/stragglers/asynchronous.py"),
            Law("accepted fraction, largest age 0, equal workers", 1 / settings.workers, "1 / n",
                "all other gradients are stale"),
        ),
        rows=tuple(row | race for row, race in zip(rows, races, strict=True)),
        curves=(
            Curve("persistent speeds, simulated", x, np.array(lasting), marks=True),
            Curve("transient slowdowns, simulated", x, np.array(passing), marks=True),
            Curve("persistent: rate of the slowest", x, np.full(len(x), 1 / settings.slow_factor), theory=True),
            Curve("transient: 1 / mean time", x, np.full(len(x), 1 / float(transient.mean())), theory=True),
        ),
        picture=Picture("clock_gap_steps", "steps_per_s"),
        conclusion=(
            f"a clock gap of {bounds[-1]} gives {lasting[-1]:.3g} steps/s per worker with persistent speeds "
            "(unbounded: "
            f"{free:.3g}) and {passing[-1]:.3g} with transient slowdowns (unbounded: {1 / transient.mean():.3g})"
        ),
        assumptions=(
            f"persistent: half of the workers take 1 s, half {settings.slow_factor:g} s; transient: a fraction "
            f"{settings.slow_steps_frac:g} of all steps takes 5 s instead of 1 s",
            f"to the target: a hundredth of the first loss on a quadratic of condition number {CONDITION:g}, transient "
            f"slowdowns 5 % apart, the best step size for each clock gap, mean of {RUNS} runs",
            f"server that rejects stale gradients: times of all workers within {CYCLE_SPREAD_FRAC:.0%} of 1 s",
        ),
    )  # fmt: skip


def _race(settings: Settings, bound: int, seed: int) -> Json:
    """Mean updates and seconds to the target at a clock gap, with transient slowdowns; empty if a run misses it."""
    runs = [best_run(times_s, bound, SIZES, CONDITION, TARGET_FRAC) for times_s in _race_times_s(settings, seed)]
    means = [None if None in one else float(np.mean(one)) for one in zip(*runs, strict=True)]
    return dict(zip(("updates_to_target", "time_to_target_s"), means, strict=True))


def _race_times_s(settings: Settings, seed: int) -> list[np.ndarray]:
    """Seconds of every step of every worker, run by run."""
    found = []
    for generator in (np.random.default_rng([seed, one]) for one in range(RUNS)):
        slow = _transient(settings, generator, RUN_STEPS)
        found.append(slow * generator.uniform(*APART, (RUN_STEPS, settings.workers)))
    return found


def _in_step(settings: Settings, bounds: list[int], races: list[Json], seed: int) -> tuple[Check, ...]:
    """The race without a gap: rounds of which all gradients are of one point, and the slowest worker's time of each."""
    workers, curvatures = settings.workers, np.array([1.0, 1 / CONDITION])
    rounds, more = np.divmod(np.arange(RUN_STEPS * workers + 1)[:, np.newaxis], workers)
    counts = []
    for size in SIZES:
        distance = (1 - workers * size * curvatures) ** rounds * (1 - more * size * curvatures)
        far = distance**2 @ curvatures >= TARGET_FRAC * curvatures.sum()
        counts += [] if far[-1] else [int(np.flatnonzero(far).max()) + 1]
    if bounds[0] > 0 or not counts:
        return ()
    whole, left = divmod(min(counts), workers)
    times_s = [
        one[:whole].max(axis=1).sum() + (np.sort(one[whole])[left - 1] if left else 0.0)
        for one in _race_times_s(settings, seed)
    ]
    holds = when(True, "a smallest bound of 0, and a target that is reached")
    expected_s = float(np.mean(times_s))
    return (
        Check("updates to the target, gap 0", min(counts), races[0]["updates_to_target"], holds=holds),
        Check("time to the target, gap 0 (s)", expected_s, races[0]["time_to_target_s"], tolerance=1e-9 * expected_s,
              holds=holds),
    )  # fmt: skip


def _nearly_one() -> TimeLaw:
    return Uniform(1 - CYCLE_SPREAD_FRAC / 2, 1 + CYCLE_SPREAD_FRAC / 2)


def _transient(settings: Settings, generator: np.random.Generator, steps: int) -> np.ndarray:
    slow = generator.random((steps, settings.workers)) < settings.slow_steps_frac
    return np.where(slow, 5.0, 1.0)


def _times(settings: Settings, transient: np.ndarray, nearly: np.ndarray) -> tuple[Check, ...]:
    """The times that are drawn: the mean of those with slow steps, the spread of nearly equal ones."""
    mean, error = mean_and_error(transient)
    spread = 0.01 / math.sqrt(12)
    return (
        Check("mean time with transient slowdowns", 1 + 4 * settings.slow_steps_frac, mean, error, 1e-9, holds=ALWAYS),
        Check("standard deviation of nearly equal times", spread, float(nearly.std()),
              spread * math.sqrt(0.2 / nearly.size), holds=ALWAYS),
    )  # fmt: skip


def _steps_per_s(updates: Updates, workers: int) -> float:
    """Steps per second of one worker over the later half."""
    return updates.settled().per_s / workers


def _row(bound: int, kept: Updates, lasting: float, passing: float, refusing: Updates) -> Json:
    return {
        "bound": bound, "lasting_steps_per_s": lasting, "passing_steps_per_s": passing,
        "largest_delay_updates": int(kept.settled().delay.max()), "accepted_frac": len(refusing) / refusing.computed,
        "largest_accepted_delay": int(refusing.delay.max()),
    }  # fmt: skip


def _checks(
    settings: Settings, rows: list[Json], free: float, transient: np.ndarray, nearly: np.ndarray
) -> tuple[Check, ...]:
    """What the two bounds do, and what they do not."""
    (tightest, *_), (*_, last) = rows, rows
    slowest = 1 / settings.slow_factor
    # Until the fast workers have used up their lead they are faster: bound / (ratio - 1) steps of the slow ones.
    lead = last["bound"] / settings.steps
    unbounded = asynchronous(transient).settled()
    oldest = cut_off(nearly, 0)
    spread_frac = float(transient.std() / transient.mean()) / math.sqrt(transient.size)
    found = [
        Check("steps/s with persistent "
              "speeds, every gap", slowest, last["lasting_steps_per_s"], tolerance=2 * lead + 1e-3,
              holds=ALWAYS),
        Check("steps/s with transient slowdowns, no bound", 1 / float(transient.mean()),
              unbounded.per_s / settings.workers, spread_frac / float(transient.mean()), tolerance=4 / settings.steps,
              holds=ALWAYS),
        Check("accepted fraction with "
              "largest age 0", 1 / settings.workers, len(oldest) / oldest.computed, tolerance=0.01,
              holds=ALWAYS),
        *(
            Check(f"accepted delays, largest age {row['bound']}", row["bound"], row["largest_accepted_delay"],
                  relation="at most", holds=ALWAYS)
            for row in rows
        ),
        Check("a clock gap keeps the mean speed of unequal workers", free, last["lasting_steps_per_s"],
              tolerance=0.25 * (free - slowest), false_law=True, holds=ALWAYS),
        Check("a clock gap bounds the delay in updates", tightest["bound"], tightest["largest_delay_updates"],
              relation="at most", false_law=True,
              holds=when(tightest["bound"] < settings.workers - 1, "a smallest bound below workers - 1")),
    ]  # fmt: skip
    return tuple(found)
