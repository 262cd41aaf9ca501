"""Pictures of items: the law that is claimed, the one that is true, and what was simulated, over the same axes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from lockstep.check.evidence.claims import exercise_pictures, figures, statement_pictures
from lockstep.check.evidence.claims.entry import Entry
from lockstep.check.evidence.claims.picture import Line, Picture


def pictures_of(entry: Entry) -> tuple[Picture, ...]:
    """The pictures of an item, next to each other; none where it has none of its own."""
    from lockstep.learn.lab import each_run_once

    with each_run_once():
        return tuple(picture for name in entry.figures for picture in pictures(name))


def pictures(name: str) -> tuple[Picture, ...]:
    """Those of a name that entries give."""
    found = PICTURES[name]()
    return (found,) if isinstance(found, Picture) else found


def delay_edge() -> Picture:
    """Largest stable step over the delay, with the printed 1 / delay."""
    from lockstep.check.evidence.claims.deciders.table import found_in
    from lockstep.learn.lab import find_experiment
    from lockstep.learn.lab.laws import largest_stable_step

    delays = np.arange(1, 21)
    found = find_experiment("delay-stability").answer({})
    marks = (1, 2, 5, 10, 20)
    seen = [found_in(found, f"largest stable step, delay {tau}, momentum 0").value for tau in marks]
    return Picture(
        "Up to which step is descent on old gradients of a quadratic stable?",
        "delay, updates", "largest stable step x curvature",
        (
            Line("claimed: 1 / delay", delays, 1 / delays, "claimed"),
            Line("true: 2 sin(pi / (2 (2 delay + 1)))", delays, [largest_stable_step(int(t)) for t in delays], "true"),
            Line("simulated", list(map(float, marks)), seen, "found"),
        ),
        log_x=True, log_y=True,
    )  # fmt: skip


def speed_up() -> Picture:
    """Speed-up over workers for an exchange of half of one worker's computing, which the single worker pays too."""
    from lockstep.check.evidence.claims.deciders.scaling import speedup

    rho, workers = 0.5, np.geomspace(1, 256, 100)
    marks = [1, 2, 4, 8, 16, 32, 64, 128, 256]
    return Picture(
        "How much faster are n workers if each step pays an exchange of half the computing?",
        "workers", "speed-up",
        (
            Line("claimed bound: n / (1 + (n - 1) rho)", workers, workers / (1 + (workers - 1) * rho), "claimed"),
            Line("true: n (1 + rho) / (1 + n rho)", workers, workers * (1 + rho) / (1 + workers * rho), "true"),
            Line("simulated", list(map(float, marks)), [speedup(n, 1.0, rho, True) for n in marks], "found"),
        ),
        log_x=True,
    )  # fmt: skip


def root_of_workers() -> Picture:
    """Speed-up over workers for an exchange of 1 % of one worker's computing, with sqrt(n)."""
    from lockstep.check.evidence.claims.deciders.scaling import speedup

    rho, workers = 0.01, np.geomspace(1, 4096, 100)
    marks = [1, 4, 16, 64, 256, 1024, 4096]
    return Picture(
        "Does the speed-up grow as sqrt(n)? An exchange of 1 % of the computing",
        "workers", "speed-up",
        (
            Line("claimed: sqrt(n)", workers, np.sqrt(workers), "claimed"),
            Line("true: n (1 + rho) / (1 + n rho)", workers, workers * (1 + rho) / (1 + workers * rho), "true"),
            Line("simulated", list(map(float, marks)), [speedup(n, 1.0, rho, True) for n in marks], "found"),
        ),
        log_x=True, log_y=True,
    )  # fmt: skip


RACE: dict[str, Any] = {
    "workers": 16, "law": "uniform:low=0.95,high=1.05", "slow_frac": 0.1, "slow": 5.0, "steps": 40, "condition": 30.0,
    "target": 0.01, "low": 0.05, "high": 1.6, "sizes": 24,
}  # fmt: skip
"""The races of A.6: a tenth of the steps takes 5 s instead of 1 s."""


def bounded_runs() -> tuple[Picture, ...]:
    """Updates and seconds to a target over how far workers may run ahead, slowed down now and then."""
    from lockstep.check.evidence.claims.deciders.steps import race

    bounds, runs = [0, 1, 2, 3, 4, 5, 7, 10, 15, 20, 30], 100
    x = list(map(float, bounds))

    def drawn(what: str) -> Line:
        found = np.array([race(bound, what, runs, 0, **RACE) for bound in bounds])
        half = 1.96 * found.std(axis=1, ddof=1) / runs**0.5
        label = f"simulated, mean of {runs} runs with 95 % interval"
        # All runs in step take as many updates: an interval of nothing has no bar.
        return Line(label, x, found.mean(axis=1), "found", half=np.maximum(half, 1e-9))

    updates, seconds = drawn("updates"), drawn("s")
    waits = Line("in step", [0.0, 30.0], [float(seconds.y[0])] * 2, "true")
    asked = "most steps that a worker may be ahead"
    return (
        Picture("How many updates does a bound on staleness need?", asked, "updates to a hundredth of the loss",
                (Line("in step", [0.0, 30.0], [float(updates.y[0])] * 2, "true"), updates)),
        Picture("And how long? 16 workers, a tenth of the steps 5 s, others 1 s", asked,
                "time to a hundredth of the loss, seconds", (waits, seconds)),
    )  # fmt: skip


def ring_and_tree() -> Picture:
    """Time of an all-reduce over its size, with and without the latency."""
    from lockstep.check.evidence.claims.deciders.network import simulated_s, time_s

    ranks, latency_s, rate_Bps = 256, 1e-5, 50e9
    sizes = np.geomspace(1e5, 1e9, 60)
    marks = np.geomspace(1e5, 1e9, 5)

    def seconds(name: str) -> list[float]:
        return [time_s(ranks, float(size), latency_s, rate_Bps, name) for size in sizes]

    return Picture(
        "Is a ring the fastest all-reduce? 256 ranks, 10 us, 50 GB/s",
        "buffer, bytes", "time, seconds",
        (
            Line("claimed: 2 (n - 1) d / (n beta)", sizes, 2 * (ranks - 1) / ranks * sizes / rate_Bps, "claimed"),
            Line("true: ring, with its latency", sizes, seconds("ring"), "true"),
            Line("ring, simulated", marks, [simulated_s(ranks, float(s), latency_s, rate_Bps) for s in marks], "found"),
            Line("tree, simulated", marks,
                 [simulated_s(ranks, float(s), latency_s, rate_Bps, "tree") for s in marks], "joined"),
        ),
        log_x=True, log_y=True,
    )  # fmt: skip


def pipeline() -> Picture:
    """Share of computing over micro-batches."""
    from lockstep.check.evidence.claims.deciders.pipelines import busy, busy_frac

    stages, numbers = 8, np.arange(1, 129)
    marks = [1, 2, 4, 8, 16, 32, 64, 128]
    return Picture(
        "How many micro-batches does a pipeline of 8 stages need?",
        "micro-batches", "share of the step in which devices compute",
        (
            Line("claimed: 90 % from 10 on", [10, 128], [0.9, 0.9], "claimed"),
            Line("true: m / (m + p - 1)", numbers, [busy_frac(stages, int(m), 1) for m in numbers], "true"),
            Line("simulated, 1F1B", list(map(float, marks)), [busy(stages, m, "1f1b") for m in marks], "found"),
        ),
        log_x=True,
    )  # fmt: skip


def checkpoint_interval() -> Picture:
    """Overhead over the interval, to first order and exactly."""
    from lockstep.check.evidence.claims.deciders.checkpoints import first_order, overhead, simulated_overhead

    mtbf_h, write_h = 10.0, 5.0
    hours = np.geomspace(1.5, 30, 60)
    marks = (2.0, 4.0, 7.0, 10.0, 20.0)
    seen = [float(simulated_overhead(mtbf_h, write_h, t, 200 * mtbf_h, 400, 0).mean()) for t in marks]
    return Picture(
        "Which interval between checkpoints costs least? 10 h between failures, 5 h to write",
        "interval, hours of work", "overhead, time lost over useful work",
        (
            Line("claimed: C / t + t / (2 M)", hours, [first_order(mtbf_h, write_h, t) for t in hours], "claimed"),
            Line("true: M (exp((t + C) / M) - 1) / t - 1", hours,
                 [overhead(mtbf_h, write_h, t) for t in hours], "true"),
            Line("simulated", list(marks), seen, "found"),
        ),
        log_x=True, log_y=True,
    )  # fmt: skip


def noise_floor() -> Picture:
    """Stationary loss over the batch size."""
    from lockstep.check.evidence.claims.deciders.table import found_in
    from lockstep.learn.lab import find_experiment
    from lockstep.learn.lab.laws import stationary_variance

    batches = np.geomspace(1, 64, 50)
    found = find_experiment("sgd-bound").answer({})
    marks = (1, 8, 64)
    floors = stationary_variance(0.5, 1.0, 1 / batches) / 2
    return Picture(
        "Does the noise of SGD grow with the batch size? Step 0.5 / L",
        "batch size", "stationary loss, units of s^2 / L",
        (
            Line("claimed: in proportion to B", batches, float(floors[0]) * batches, "claimed"),
            Line("true: a s^2 / (2 B (2 - a L))", batches, floors, "true"),
            Line("simulated", list(map(float, marks)),
                 [found_in(found, f"floor, batch {b}, a L = 0.5").value for b in marks], "found"),
        ),
        log_x=True, log_y=True,
    )  # fmt: skip


PICTURES: dict[str, Callable[[], Picture | tuple[Picture, ...]]] = {
    one.__name__.replace("_", "-"): one
    for one in (
        delay_edge, speed_up, root_of_workers, bounded_runs, ring_and_tree, pipeline,
        checkpoint_interval, noise_floor,
        *exercise_pictures.ALL, *statement_pictures.ALL,
    )
}  # fmt: skip
"""By the names that entries give them; `figures.py` makes those that are declared."""
PICTURES |= {name: partial(figures.drawn, name) for name in figures.declared()}
