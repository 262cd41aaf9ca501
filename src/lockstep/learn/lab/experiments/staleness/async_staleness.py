"""How old gradients are when nobody waits: n - 1 updates on average, whatever the speeds.

An event simulation of workers that read, compute and write to a shared server. Every update is seen once by each of the
n - 1 others while they compute, so the mean delay is n - 1 exactly; worker i with times t_i has the delay
t_i * sum over j != i of 1 / t_j. Rates add up: n updates take the harmonic mean of the times. Refuted: the arithmetic
mean of the times, and that everybody's delay is n - 1.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.settings import setting
from lockstep.learn.lab import ALWAYS, Check, Curve, Findings, Law, Picture, Progress, mean_and_error, watched, when
from lockstep.learn.lab.descent.updates import Updates, asynchronous, worker_times_s
from lockstep.simulate.failures.stragglers import asynchronous as exact
from lockstep.simulate.play import Constant, parse_law

QUESTION = "How stale are gradients when no worker waits?"
SOURCE = "counting in simulate/failures/stragglers/asynchronous.py; event simulation"
LAW_SOURCE = "each update is missed once by every other worker"
MOST_SHOWN = 60
UNEQUAL = 3.0
"""Times of the slowest over those of the fastest worker from which on a run shows that they differ."""
LEAST_UPDATES = 20
"""Of the slowest worker."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The workers."""

    slowdowns: tuple[float, ...] = setting(
        (1.0, 1.0, 1.0, 10.0), "Factor on the time per gradient of each worker.", least=1e-3, most=1e3
    )
    law: str = setting("lognormal:mean=1s,cv=0.3", "Law of a worker's time per gradient, as in lockstep stragglers.")
    steps: int = setting(
        4000, "Gradients that a worker with slowdown 1 computes in one run.", least=200, most=1_000_000
    )
    runs: int = setting(8, "Independent runs.", least=2, most=1000)


def run(settings: Settings, seed: int, progress: Progress) -> Findings:
    """Delays and throughput with fixed times, and with times drawn from the law."""
    slowdown = np.array(settings.slowdowns)
    law = parse_law(settings.law, "--set law")
    if settings.steps * slowdown.min() < LEAST_UPDATES * slowdown.max():
        raise BadInput(f"the slowest worker makes fewer than {LEAST_UPDATES} updates; use more steps", "--set steps")
    fixed = asynchronous(worker_times_s(Constant(law.mean_s), slowdown, settings.steps, np.random.default_rng(seed)))
    drawn: list[Updates] = []
    for number in watched(range(settings.runs), progress):
        generator = np.random.default_rng([seed, number])
        drawn.append(asynchronous(worker_times_s(law, slowdown, settings.steps, generator)).settled())
    theory = exact((slowdown * law.mean_s).tolist())
    mean, error = mean_and_error(np.array([one.delay.mean() for one in drawn]))
    rate, rate_error = mean_and_error(np.array([one.per_s for one in drawn]))
    slow = int(slowdown.argmax())
    checks = [
        Check("mean delay, random times", theory.mean_delay, mean, standard_error=error, tolerance=_edge(settings),
              runs=settings.runs, holds=ALWAYS),
        Check("updates per second, random times", theory.updates_per_s, rate, rate_error, 0.01 * theory.updates_per_s,
              runs=settings.runs, holds=ALWAYS),
        *_fixed_checks(fixed.settled(), theory.mean_delay, theory.delays, slow),
    ]  # fmt: skip
    wrong = len(slowdown) / float((slowdown * law.mean_s).mean())
    slow_delay = fixed.settled().mean_delay_of(slow)
    telling = when(
        bool(slowdown.max() >= UNEQUAL * slowdown.min()),
        f"workers whose speeds differ by a factor of {UNEQUAL:g} or more",
    )
    what = "the slowest worker's delay is n - 1 too"
    checks += [
        Check("updates per second from the mean time", wrong, rate, rate_error, 0.05 * rate, True, holds=telling),
        Check(what, theory.mean_delay, slow_delay, tolerance=0.5, false_law=True, holds=telling),
    ]
    delays = np.concatenate([one.delay for one in drawn])
    return Findings(
        checks=tuple(checks),
        theory=(
            Law("mean delay", theory.mean_delay, "n - 1", LAW_SOURCE),
            Law("updates per second", theory.updates_per_s, "sum 1 / t_i", "rates of independent workers add up"),
            Law("delay of the slowest worker", theory.delays[slow], "t_i sum_(j != i) 1 / t_j", LAW_SOURCE),
        ),
        curves=_histogram(delays, len(slowdown)),
        picture=Picture("delay_updates", "share_frac"),
        conclusion=(
            f"{len(slowdown)} workers: mean delay {mean:.4g}, median {np.median(delays):g},"
            f" 99th percentile {np.quantile(delays, 0.99):g}"
        ),
        assumptions=("applying an update takes no time; times include communication",),
    )


def _edge(settings: Settings) -> float:
    """What the ends of a finite run can change in a mean delay: one window of the slowest worker."""
    speeds = 1 / np.array(settings.slowdowns)
    return float(len(speeds) * speeds.max() / speeds.min() / settings.steps * 4)


def _fixed_checks(found: Updates, mean: float, delays: tuple[float, ...], slow: int) -> list[Check]:
    """Exact delays when times are fixed, up to where the window is cut."""
    what = "delay of the slowest worker"
    return [
        Check("mean delay, fixed times", mean, float(found.delay.mean()), tolerance=0.01 * (mean + 1), holds=ALWAYS),
        Check(f"{what}, fixed times", delays[slow], found.mean_delay_of(slow), tolerance=0.02 * (delays[slow] + 1),
              holds=ALWAYS),
    ]  # fmt: skip


def _histogram(delays: np.ndarray, workers: int) -> tuple[Curve, ...]:
    """Shares of the delays, and the mean."""
    longest = min(int(delays.max()), MOST_SHOWN)
    x = np.arange(longest + 1.0)
    share = np.bincount(np.minimum(delays, longest), minlength=longest + 1) / len(delays)
    mean = np.array([workers - 1.0, workers - 1.0])
    return (
        Curve("simulated", x, share),
        Curve("mean: n - 1", mean, np.array([0.0, float(share.max())]), theory=True),
    )
