"""What is gained by trusting old gradients less: nothing at a constant delay, a larger step when delays differ.

With the weight 1 / (1 + tau) the edge at a constant delay moves to a lambda = (1 + tau) 2 sin(pi / (2 (2 tau + 1))),
from 2 down to pi / 2: one step below pi / 2 is stable at every constant delay. But at a constant delay the weighted
method is the plain one with the step a / (1 + tau), so nothing is won. With delays that differ (fast and slow workers)
the weights let all updates but the oldest keep a large step. Refuted: the printed gain of 13.8 at a constant delay.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.settings import setting
from lockstep.base.types.arrays import Array
from lockstep.base.types.plain import Json
from lockstep.learn.lab import ALWAYS, Check, Curve, Findings, Law, Picture, Progress, watched
from lockstep.learn.lab.descent.delayed import RESOLUTION, delayed_shrinks, scheduled_shrinks, searched_edge
from lockstep.learn.lab.descent.updates import Updates, asynchronous, worker_times_s
from lockstep.learn.lab.laws import largest_stable_step
from lockstep.learn.methods.staleness import cut_off, exponential, inverse
from lockstep.simulate.play import LogNormal

QUESTION = "What does weighting gradients by their staleness gain?"
SOURCE = "Zhang, Gupta, Lian and Liu, IJCAI 2016; characteristic roots; event simulation"

WEIGHTED_EDGE = "(1 + tau) 2 sin(pi / (2 (2 tau + 1)))"
TIME_CV = 0.1
"""Spread of the times of every worker."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Constant delays, and workers whose delays differ."""

    delays: tuple[int, ...] = setting((0, 1, 2, 5, 10, 20), "Constant delays, in updates.", least=0, most=100)
    slowdowns: tuple[float, ...] = setting(
        (1.0, 1.0, 1.0, 20.0), "Relative times per gradient of the workers, which give mixed delays.", above=0, most=100
    )
    exponential_rate: float = setting(0.1, "Rate of the weight exp(-rate * delay).", least=0, most=10)
    oldest: int = setting(10, "Largest delay that the cut-off accepts, in updates.", least=0, most=10_000)
    updates: int = setting(3000, "Updates in a run.", least=1000, most=100_000)


def run(settings: Settings, seed: int, progress: Progress) -> Findings:
    """Edges with the weight at constant delays; edges and effective steps of all weights at mixed ones."""
    delays = sorted(set(settings.delays))
    exact = np.array([(1 + delay) * largest_stable_step(delay) for delay in delays])
    found = np.array([_weighted_edge(delay, settings.updates) for delay in delays])
    checks = [
        Check(
            f"stability limit with 1 / (1 + tau), delay {delay}",
            edge,
            got,
            tolerance=2 * RESOLUTION * edge,
            holds=ALWAYS,
        )
        for delay, edge, got in zip(delays, exact, found, strict=True)
    ]
    rows = _mixed(settings, seed, progress)
    gain = rows[1]["effective_step"] / rows[0]["effective_step"]
    checks.append(
        Check("gain of 1 / (1 + tau), mixed delays", 1.0, gain, tolerance=0.05, relation="at least", holds=ALWAYS)
    )
    longest = delays[-1]
    plain = found[-1] / (1 + longest) / largest_stable_step(longest)
    what = f"gain of 13.8 in the effective step at the constant delay {longest}"
    checks.append(Check(what, 13.8, float(plain), tolerance=1.0, false_law=True, holds=ALWAYS))
    x = np.array(delays, dtype=float)
    return Findings(
        checks=tuple(checks),
        theory=tuple(
            Law(
                f"stability limit with 1 / (1 + tau), delay {delay}", float(edge), WEIGHTED_EDGE, "characteristic roots"
            )
            for delay, edge in zip(delays, exact, strict=True)
        ),
        rows=tuple(rows),
        curves=(
            Curve("weight 1 / (1 + tau), searched", x, found, marks=True),
            Curve("weight 1 / (1 + tau), exact", x, exact, theory=True),
            Curve("no weight, exact", x, exact / (1 + x), theory=True),
            Curve("pi / 2", x, np.full(len(x), np.pi / 2), theory=True),
        ),
        picture=Picture("delay_steps", "step_size_times_curvature"),
        conclusion=(
            f"with mixed delays (mean {rows[0]['mean_delay']:.3g}, largest {rows[0]['largest_delay']}) the weight "
            f"1 / (1 + tau) allows {gain:.3g} times the effective step; at a constant delay it gains nothing"
        ),
        assumptions=(
            f"mixed delays: event simulation of workers with slowdowns {settings.slowdowns}, log-normal times with cv "
            f"{TIME_CV:g}",
            "effective step: the step times the mean weight, which is what moves a slow direction",
        ),
    )


def _weighted_edge(delay: int, steps: int) -> float:
    """Searched with the weight inside the method."""
    weight = inverse(float(delay))
    return searched_edge(lambda a: delayed_shrinks(weight * a, delay, 0.0, steps), 3.0 * (1 + delay))


def _mixed(settings: Settings, seed: int, progress: Progress) -> list[Json]:
    """A row per weight: edge, mean weight and their product, on one schedule."""
    slowdown = np.array(settings.slowdowns)
    times_s = worker_times_s(LogNormal(1.0, TIME_CV), slowdown, settings.updates, np.random.default_rng(seed))
    made = asynchronous(times_s)
    cut = slice(0, settings.updates)
    updates = Updates(made.end_s[cut], made.worker[cut], made.read[cut], settings.updates)
    weights: dict[str, Callable[[Array], Array]] = {
        "none": np.ones_like,
        "inverse": inverse,
        "exponential": lambda delay: exponential(delay, settings.exponential_rate),
        "cut-off": lambda delay: cut_off(delay, settings.oldest),
    }
    rows = []
    for name, law in watched(weights.items(), progress):
        weight = law(updates.delay.astype(float))
        edge = searched_edge(partial(scheduled_shrinks, read=updates.read, weights=weight), 12.0)
        rows.append({
            "weight": name, "largest_step": edge, "mean_weight": float(weight.mean()),
            "effective_step": edge * float(weight.mean()), "mean_delay": float(updates.delay.mean()),
            "largest_delay": int(updates.delay.max()),
        })  # fmt: skip
    return rows
