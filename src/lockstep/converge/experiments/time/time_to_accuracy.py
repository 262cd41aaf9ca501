"""Seconds and bytes until the loss is low enough: the same training done synchronously, locally, compressed, without
waiting.

Steps alone or seconds per step alone choose wrongly; their product chooses. Which way wins depends on the share of a
synchronous step that is waiting and sending, so the answer is for one cluster, one gradient size and one law of times.
Refuted: that the way with the fewest gradients is the fastest one, where sending costs more than computing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lockstep.collectives import PlainLink, best_time_s
from lockstep.converge.descent.updates import worker_times_s
from lockstep.converge.experiment import Experiment, Progress
from lockstep.converge.findings import Check, Curve, Findings, Law, Picture
from lockstep.converge.objectives import Quadratic, spectrum
from lockstep.converge.race import Course, Leg, compressed, local, served
from lockstep.errors import BadInput
from lockstep.hardware import cluster as find_cluster
from lockstep.settings import setting
from lockstep.simulate import parse_law, simulate
from lockstep.stragglers import bounded
from lockstep.units import format_size, format_time

DIMENSION = 40
SIMULATED_STEPS = 20


@dataclass(frozen=True, slots=True)
class Settings:
    """Cluster, cost of a step, and the problem."""

    cluster: str = setting(
        "none", "Catalog name with nodes, as dgx-h100:2, for its link; none: the two settings below."
    )
    latency_s: float = setting(50e-6, "Of a message, without a cluster.", least=0, most=100)
    bandwidth_Bps: float = setting(1.25e9, "Of a worker's link, without a cluster.", above=0, most=1e15)
    workers: int = setting(8, "Devices, each with its share of the batch.", least=2, most=1024)
    size_B: float = setting(400e6, "Gradient, and parameters.", above=0, most=1e15)
    law: str = setting("lognormal:mean=0.2s,cv=0.3", "Of a worker's time per gradient, as in lockstep stragglers.")
    period: int = setting(8, "Steps between averages of local SGD.", least=2, most=1000)
    bound: int = setting(2, "Clock gap of the bounded run.", least=0, most=1000)
    keep_frac: float = setting(0.05, "Entries that the compressed run sends.", above=0, most=1)
    target_frac: float = setting(0.03, "Loss to reach, of that at the start.", above=0, below=1)
    step_size: float = setting(0.3, "Of a synchronous step; the largest curvature is 1.", above=0, below=2)
    condition: float = setting(20.0, "Condition number.", least=1, most=1e3)
    noise_std: float = setting(0.5, "Standard deviation of one gradient in every direction.", least=0, most=100)
    steps: int = setting(240, "Gradients of a worker in a run.", least=20, most=20_000)
    trials: int = setting(8, "Independent runs.", least=2, most=1000)


def run(settings: Settings, seed: int, progress: Progress) -> Findings:
    """All ways on one clock."""
    course = _course(settings, seed)
    ways: tuple[Callable[[], Leg], ...] = (
        lambda: local(course, 1),
        lambda: local(course, settings.period),
        lambda: served(course, None),
        lambda: served(course, settings.bound),
        lambda: compressed(course, settings.keep_frac),
    )
    legs = []
    for place, way in enumerate(ways):
        legs.append(way())
        progress(place + 1, len(ways))
    first = float(course.objective.loss(course.start[0]))
    rows = [_row(leg, settings.target_frac * first, settings.steps) for leg in legs]
    end_s = max(float(leg.time_s[-1]) for leg in legs)
    level = settings.target_frac * first
    return Findings(
        checks=_checks(course, legs[0], rows),
        theory=(
            Law("all-reduce", course.all_reduce_s(), "fastest algorithm", "collectives/best.py"),
            Law("seconds per synchronous step", _step_s(course, settings), "E max + all-reduce", "simulate/law.py"),
        ),
        rows=tuple(rows),
        curves=(
            *(_curve(leg) for leg in legs),
            Curve("target", np.array([0.0, end_s]), np.full(2, level), theory=True),
        ),
        picture=Picture("time_s", "loss", log_y=True),
        conclusion=_conclusion(rows),
        assumptions=(
            "a noisy quadratic counts the steps; all workers have the same data (local-bias shows what changes else)",
            "nothing is hidden behind computing; a gradient of 4-byte numbers",
            "one schedule of times; the asynchronous server has as many shards as workers and never queues",
        ),
    )


def _course(settings: Settings, seed: int) -> Course:
    law = parse_law(settings.law, "--set law")
    times_s = worker_times_s(law, np.ones(settings.workers), settings.steps, np.random.default_rng(seed))
    objective = Quadratic(spectrum("logarithmic", DIMENSION, settings.condition), np.zeros(DIMENSION))
    start = np.ones((settings.trials, DIMENSION))
    return Course(
        objective, start, settings.noise_std, settings.step_size, settings.trials, times_s, _link(settings),
        settings.size_B, seed,
    )  # fmt: skip


def _link(settings: Settings) -> PlainLink:
    """The link of one device of the widest level that the workers span."""
    if settings.cluster == "none":
        return PlainLink(settings.latency_s, settings.bandwidth_Bps)
    machine = find_cluster(settings.cluster)
    if settings.workers > machine.num_devices:
        raise BadInput(f"{machine.name} has {machine.num_devices} devices; take more nodes", "--set workers")
    link = machine.link_per_device(int(np.asarray(machine.level_spanned(settings.workers))))
    return PlainLink(link.latency_s, link.bandwidth_Bps, link.reduce_s_per_B)


def _row(leg: Leg, target: float, steps: int) -> dict[str, Any]:
    reached = leg.until(target)
    gradients, time_s, sent_B = reached or (None, None, None)
    share = leg.exchange_s / float(leg.time_s[-1])
    busy = leg.compute_s / float(leg.time_s[-1])
    return {
        "way": leg.name, "gradients": gradients, "time_s": time_s, "sent_B": sent_B,
        "computing_frac": busy, "sending_frac": share, "waiting_frac": max(0.0, 1 - busy - share),
    }  # fmt: skip


def _step_s(course: Course, settings: Settings) -> float:
    return parse_law(settings.law).expected_max_s(course.workers) + course.all_reduce_s()


def _curve(leg: Leg) -> Curve:
    mean, trials = leg.losses.mean(axis=1), leg.losses.shape[1]
    half = 1.96 * leg.losses.std(axis=1, ddof=1) / np.sqrt(trials)
    return Curve.until_divergence(leg.name, leg.time_s, mean, half_ci95=half)


def _checks(course: Course, synchronous: Leg, rows: list[dict[str, Any]]) -> tuple[Check, ...]:
    """The clock of the barrier is the timeline of its program; fewest gradients are not fewest seconds."""
    steps = min(SIMULATED_STEPS, len(course.times_s))
    timeline = simulate(bounded.program(course.times_s[:steps], 0))
    clock_s = float(synchronous.time_s[steps]) - steps * course.all_reduce_s()
    ring_s = float(best_time_s("all-reduce", course.workers, course.size_B, course.link, ["ring"]))
    found = [
        Check(
            f"seconds of {steps} barriers, program simulated", timeline.makespan_s, clock_s, tolerance=1e-9 * clock_s
        ),
        Check("seconds of the all-reduce, ring", ring_s, course.all_reduce_s(), tolerance=1e-12, relation="at most"),
    ]
    arrived = [row for row in rows if row["time_s"] is not None]
    sending = rows[0]["sending_frac"]
    if len(arrived) > 1 and sending > 0.5:
        fewest = min(arrived, key=lambda row: row["gradients"])["time_s"]
        quickest = min(row["time_s"] for row in arrived)
        what = "the way with the fewest gradients is the fastest"
        found.append(Check(what, fewest, quickest, tolerance=1e-9 * fewest, false_law=True))
    return tuple(found)


def _conclusion(rows: list[dict[str, Any]]) -> str:
    """The best way, with what makes it so."""
    arrived = [row for row in rows if row["time_s"] is not None]
    if not arrived:
        return "none of the ways reaches the target: take more steps, a smaller step or a higher target"
    best, base = min(arrived, key=lambda row: row["time_s"]), rows[0]
    said = f"{best['way']} is fastest: {format_time(best['time_s'])} and {format_size(best['sent_B'])} sent per worker"
    if best is base or base["time_s"] is None:
        return f"{said}; a synchronous step computes {base['computing_frac']:.0%} of its time"
    steps = best["gradients"] / base["gradients"]
    return (
        f"{said}, {base['time_s'] / best['time_s']:.3g} times faster than synchronous: {steps:.3g} times the "
        f"gradients, each {steps * base['time_s'] / best['time_s']:.3g} times as quick; a synchronous run sends for "
        f"{base['sending_frac']:.0%} of its time and waits for {base['waiting_frac']:.0%}"
    )


EXPERIMENT = Experiment(
    name="time-to-accuracy",
    question="Which way of training reaches the target first on this cluster, and why?",
    source="steps by simulation; seconds by collectives and stragglers",
    settings=Settings,
    run=run,
)
