"""Seconds and bytes until the loss is low enough: the same training done synchronously, locally, compressed, without
waiting.

Steps alone or seconds per step alone choose wrongly; their product chooses. Which way wins depends on the share of a
synchronous step that is waiting and sending, so the answer is for one cluster, one gradient size and one law of times.
Refuted: that the method with the fewest gradients is the fastest one, where sending costs more than computing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lockstep.base.errors import BadInput, located
from lockstep.base.records import dataclass
from lockstep.base.settings import setting
from lockstep.base.types.upper import upper
from lockstep.base.units import format_bandwidth, format_frac, format_size, format_time
from lockstep.learn.lab import ALWAYS, Check, Curve, Findings, Law, Picture, Progress, absent, watched, when
from lockstep.learn.lab.descent.updates import worker_times_s
from lockstep.learn.lab.objectives import Quadratic, spectrum
from lockstep.learn.lab.race import MEMORY_PASSES, Arrival, Course, Leg, Server, compress_s, compressed, local, served
from lockstep.simulate.collectives import PlainLink, best_time_s, get
from lockstep.simulate.failures.stragglers import bounded
from lockstep.simulate.play import Sample, circulate, parse_law, simulate

QUESTION = "Which training method reaches the target loss first on this cluster, and why?"
SOURCE = "steps by simulation; seconds by collectives, stragglers and a queue at the server"

DIMENSION = 40
SIMULATED_STEPS = 20
MORE = 1.1
"""Margin for the runs' own times, which differ from their means."""
MOST_GRADIENTS = 1_000_000
"""Of all workers in all runs: about two minutes."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Cluster, cost of a step, and the problem."""

    cluster: str = setting(
        "none",
        "Cluster from the catalog with its number of nodes, e.g. dgx-h100:2, or a YAML file; none uses latency_s, "
        "bandwidth_Bps and compress_Bps.",
    )
    latency_s: float = setting(50e-6, "Latency of a message; used without a cluster.", least=0, most=100)
    bandwidth_Bps: float = setting(1.25e9, "Bandwidth of a worker's link; used without a cluster.", above=0, most=1e15)
    compress_Bps: float = setting(
        5e9,
        "Throughput of compression and decompression together, in bytes of gradient; used without a cluster.",
        above=0,
        most=1e15,
    )
    workers: int = setting(8, "Number of workers, one device each.", least=2, most=1024)
    servers: int = setting(4, "Number of parameter-server machines, at most one per worker.", least=1, most=1024)
    size_B: float = setting(400e6, "Size of the gradient, and of the parameters.", above=0, most=1e15)
    law: str = setting("lognormal:mean=0.2s,cv=0.3", "Law of a worker's time per gradient, as in lockstep stragglers.")
    period: int = setting(8, "Local steps between averages of local SGD.", least=2, most=1000)
    bound: int = setting(
        2, "Most steps that a worker of the bounded run may be ahead of the slowest.", least=0, most=1000
    )
    keep_frac: float = setting(0.05, "Fraction of the entries that the compressed run sends.", above=0, most=1)
    target_frac: float = setting(0.03, "Loss to reach, as a fraction of the initial one.", above=0, below=1)
    step_size: float = setting(0.3, "Size of a synchronous step; the largest curvature is 1.", above=0, below=2)
    condition: float = setting(20.0, "Condition number of the quadratic.", least=1, most=1e3)
    noise_std: float = setting(0.5, "Standard deviation of the gradient noise in every direction.", least=0, most=100)
    steps: int = setting(240, "Gradients that each worker computes in a run.", least=20, most=20_000)
    trials: int = setting(16, "Independent runs, each with its own times and gradient noise.", least=2, most=1000)


def run(settings: Settings, seed: int, progress: Progress) -> Findings:
    """All ways on one clock."""
    machine = _machine(settings)
    course = _course(settings, machine, seed)
    ways: tuple[Callable[[], Leg], ...] = (
        lambda: local(course, 1),
        lambda: local(course, settings.period),
        lambda: served(course, None),
        lambda: served(course, settings.bound),
        lambda: compressed(course, settings.keep_frac),
    )
    legs = [way() for way in watched(ways, progress)]
    target = settings.target_frac * float(course.objective.loss(course.start[0]))
    arrivals = [leg.until(target) for leg in legs]
    end_s = max(float(leg.time_s[-1].mean()) for leg in legs)
    return Findings(
        checks=(
            *_barrier_checks(course, legs[0]), *_server_checks(course, legs[2]), _refuted(arrivals, settings.period),
        ),
        theory=_laws(course, settings),
        rows=tuple(arrival.to_dict() for arrival in arrivals),
        curves=(
            *(_curve(leg) for leg in legs),
            Curve("target", np.array([0.0, end_s]), np.full(2, target), theory=True),
        ),
        picture=Picture("time_s", "loss", log_y=True),
        conclusion=_conclusion(arrivals) + _limit(course),
        assumptions=_assumptions(course, machine),
    )  # fmt: skip


def _machine(settings: Settings) -> Any:
    if settings.cluster == "none":
        return None
    with located("--set cluster"):
        machine = upper("catalog").cluster(settings.cluster)
    if settings.workers > machine.num_devices:
        raise BadInput(f"{machine.name} has {machine.num_devices} devices; use more nodes", "--set workers")
    return machine


def _course(settings: Settings, machine: Any, seed: int) -> Course:
    if settings.period > settings.steps:
        raise BadInput(f"must be at most steps = {settings.steps}, got {settings.period}", "--set period")
    if settings.workers * settings.steps * settings.trials > MOST_GRADIENTS:
        raise BadInput(f"workers x steps x trials must be at most {MOST_GRADIENTS:,}; use fewer", "--set steps")
    law = parse_law(settings.law, "--set law")
    generator = np.random.default_rng(seed)
    times_s = worker_times_s(law, np.ones(settings.workers), settings.trials * settings.steps, generator)
    compress_Bps = settings.compress_Bps
    if machine is not None:
        compress_Bps = machine.device.memory_bandwidth_Bps / MEMORY_PASSES
    return Course(
        objective=Quadratic(spectrum("logarithmic", DIMENSION, settings.condition), np.zeros(DIMENSION)),
        start=np.ones((settings.trials, DIMENSION)),
        noise_std=settings.noise_std,
        step_size=settings.step_size,
        times_s=times_s.reshape(settings.trials, settings.steps, settings.workers),
        link=_link(settings, machine),
        size_B=settings.size_B,
        servers=min(settings.servers, settings.workers),
        compress_Bps=compress_Bps,
        seed=seed,
    )


def _link(settings: Settings, machine: Any) -> PlainLink:
    """The link of one device of the widest level that the workers span."""
    if machine is None:
        return PlainLink(settings.latency_s, settings.bandwidth_Bps)
    link = machine.link_per_device(int(np.asarray(machine.level_spanned(settings.workers))))
    return PlainLink(link.latency_s, link.bandwidth_Bps, link.reduce_s_per_B)


def _laws(course: Course, settings: Settings) -> tuple[Law, ...]:
    law = parse_law(settings.law)
    step_s = law.expected_max_s(course.workers) + course.all_reduce_s()
    saturating = Server.of(course).saturating_workers(float(course.times_s.mean()))
    return (
        Law("all-reduce", course.all_reduce_s(), "fastest algorithm", "simulate/collectives/best.py"),
        Law("seconds per synchronous step", step_s, "E max + all-reduce", "simulate/play/law.py"),
        Law("seconds to compress and decompress", compress_s(course), "S / rate", "learn/lab/race/compressed.py"),
        Law("workers that saturate the server", saturating, "(x + push + pull) / service", "learn/lab/race/server.py"),
    )


def _curve(leg: Leg) -> Curve:
    half = [0.5 * np.ptp(Sample(record).interval_s()) for record in leg.losses]
    return Curve.until_divergence(
        leg.name, leg.time_s.mean(axis=1), leg.losses.mean(axis=1), half_ci95=np.array(half)
    )  # fmt: skip


def _barrier_checks(course: Course, synchronous: Leg) -> tuple[Check, ...]:
    """The clock of the barrier is the timeline of its program."""
    steps = min(SIMULATED_STEPS, course.steps)
    timeline = simulate(bounded.program(course.times_s[0, :steps], 0))
    waited_s = timeline.makespan_s + steps * course.all_reduce_s()
    clock_s = float(synchronous.time_s[steps, 0])
    ring_s = float(best_time_s("all-reduce", course.workers, course.size_B, course.link, ["ring"]))
    what = f"time of {steps} barriers and all-reduces, simulated (s)"
    return (
        Check(what, waited_s, clock_s, tolerance=1e-9 * waited_s, holds=ALWAYS),
        Check("time of the ring all-reduce (s)", ring_s, course.all_reduce_s(), tolerance=1e-12, relation="at most",
              holds=ALWAYS),
    )  # fmt: skip


def _server_checks(course: Course, asynchronous: Leg) -> tuple[Check, ...]:
    """The queue at the server is the price of its program, and nobody updates faster than it serves."""
    server, idle = Server.of(course), np.zeros((1, course.workers))
    burst_s = float(circulate(idle, idle + server.service_s, least_s=server.push_s).end_s.max())
    algorithm = get("parameter-server", "asynchronous")
    price = algorithm.price(course.workers, course.size_B, course.link, shards=course.servers)
    answer_s = float(course.link.latency_s + course.size_B / course.servers / course.link.bandwidth_Bps)
    pushes_s = float(price.time_s) - answer_s
    most = course.workers * (len(asynchronous.time_s) - 1) / float(asynchronous.time_s[-1].min()) * server.service_s
    what = "updates per second, relative to the server capacity"
    return (
        Check("time of all pushes at once, priced (s)", pushes_s, burst_s, tolerance=1e-9 * pushes_s, holds=ALWAYS),
        Check(what, 1.0, most, tolerance=1e-9, relation="at most", holds=ALWAYS),
    )


def _refuted(arrivals: list[Arrival], period: int) -> Check:
    """Fewest gradients are not fewest seconds, where their computing and sending alone take longer than local steps.

    A local step sends 1 / K of what a synchronous one does and waits no longer.
    """
    what, words = "the method with the fewest gradients is the fastest", (
        "synchronous and local runs that reach the target, where computing and sending the fewest gradients takes "
        f"{MORE:g} times as long as all local steps or longer"
    )  # fmt: skip
    arrived = [one for one in arrivals if one.complete]
    synchronous, local = arrivals[:2]
    if synchronous not in arrived or local not in arrived:
        return absent(what, words)
    fewest = min(arrived, key=lambda one: float(one.gradients.mean()))
    share = 1 - synchronous.leg.sending_frac * (1 - 1 / period)
    local_s = share * _gradient_s(synchronous) * float(local.gradients.mean())
    leg = fewest.leg
    busy_s = (leg.computing_frac + leg.sending_frac) * _gradient_s(fewest) * float(fewest.gradients.mean())
    fewest_s = float(fewest.time_s.mean())
    quickest_s = min(float(one.time_s.mean()) for one in arrived)
    return Check(what, fewest_s, quickest_s, tolerance=1e-9 * fewest_s, false_law=True,
                 holds=when(busy_s >= MORE * local_s, words))  # fmt: skip


def _gradient_s(arrival: Arrival) -> float:
    """Seconds per gradient of one worker, over the whole run."""
    return float(arrival.leg.time_s[-1].mean() / arrival.leg.gradients[-1])


def _conclusion(arrivals: list[Arrival]) -> str:
    """The best way by seconds with what makes it so, what is next, and the best by bytes and by gradients."""
    arrived = sorted((one for one in arrivals if one.complete), key=lambda one: float(one.time_s.mean()))
    missing = [f"{one.leg.name} ({len(one.time_s)} of {one.trials} runs)" for one in arrivals if not one.complete]
    short = f"; target reached by {', '.join(missing)}" if missing else ""
    if not arrived:
        return (
            "no method reaches the target in every run: use more steps, a smaller step_size or a higher "
            f"target_frac{short}"
        )
    said = [f"{arrived[0].leg.name} is fastest: {_seconds(arrived[0])}; {_reason(arrived[0], arrivals[0])}"]
    if len(arrived) > 1:
        said.append(_lead(arrived[0], arrived[1]))
    thrifty = min(arrived, key=lambda one: float(one.sent_B.mean()))
    informed = min(arrived, key=lambda one: float(one.gradients.mean()))
    said.append(f"fewest bytes: {thrifty.leg.name}, {format_size(float(thrifty.sent_B.mean()))} per worker")
    said.append(f"fewest gradients: {informed.leg.name}, {float(informed.gradients.mean()):.3g} per worker")
    return "; ".join(said) + short


def _limit(course: Course) -> str:
    """Whether the server is what limits the asynchronous runs."""
    saturating = Server.of(course).saturating_workers(float(course.times_s.mean()))
    if course.workers <= saturating:
        return ""
    return f"; the server is saturated: {saturating:.3g} workers keep its {course.servers} machines busy"


def _seconds(arrival: Arrival) -> str:
    sample = Sample(arrival.time_s)
    low, high = sample.interval_s()
    return f"{format_time(sample.mean_s)} (95 % interval {format_time(low)} to {format_time(high)})"


def _reason(best: Arrival, base: Arrival) -> str:
    """What the best method saves, and what it pays for that, beside the synchronous one."""
    leg = base.leg
    if best is base:
        return f"{leg.saves}, and a step computes for {format_frac(leg.computing_frac)} of its time"
    sending, waiting = format_frac(leg.sending_frac), format_frac(leg.waiting_frac)
    said = f"{best.leg.saves}, where a synchronous run communicates for {sending} and waits for {waiting} of its time"
    if not base.complete:
        return said
    steps = float(best.gradients.mean() / base.gradients.mean())
    faster = float(base.time_s.mean() / best.time_s.mean())
    return (
        f"{said}: {steps:.3g} times the gradients, each {steps * faster:.3g} times as fast, {faster:.3g} times faster "
        "in total"
    )


def _lead(best: Arrival, second: Arrival) -> str:
    """How far ahead of the next one, over runs with the same times of the workers."""
    sample = Sample(second.time_s - best.time_s)
    low, high = sample.interval_s()
    if low <= 0:
        return f"{second.leg.name} cannot be distinguished from it in {best.trials} runs"
    return f"{second.leg.name} is {format_time(low)} to {format_time(high)} slower"


def _assumptions(course: Course, machine: Any) -> tuple[str, ...]:
    rate = format_bandwidth(course.compress_Bps)
    compressing = f"compression and decompression at {rate} (compress_Bps; compression-time measures it)"
    if machine is not None:
        compressing = (
            f"compression and decompression at {rate}: {MEMORY_PASSES} passes over the memory of "
            f"{machine.device.name}, selection free"
        )
    return (
        "steps are counted on a noisy quadratic; all workers have the same data (local-bias shows what changes "
        "otherwise)",
        "communication does not overlap with compute; gradients in 4-byte numbers",
        compressing,
        f"a parameter server of {course.servers} machines with links like a worker's, first come, first served",
    )
