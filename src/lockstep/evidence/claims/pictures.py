"""Pictures of items: the law that is claimed, the one that is true, and what was simulated, over the same axes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lockstep.evidence.claims.entry import Entry
from lockstep.types.arrays import Array

Y = Array | list[float]


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """One curve. `kind`: claimed or true laws, found (points), joined (points that no law connects), curve, or wrong
    (claimed points)."""

    label: str
    x: Y
    y: Y
    kind: str


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """A question, its axes with units, and the curves."""

    title: str
    x: str
    y: str
    lines: tuple[Line, ...]
    log_x: bool = False
    log_y: bool = False


def picture_of(entry: Entry) -> Picture | None:
    """The picture of an item; None where it has none of its own."""
    return PICTURES[entry.picture]() if entry.picture else None


def delay_edge() -> Picture:
    """Largest stable step over the delay, with the printed 1 / delay."""
    from lockstep.evidence.claims.deciders.table import found_in
    from lockstep.lab import find_experiment
    from lockstep.lab.laws import largest_stable_step

    delays = np.arange(1, 21)
    found = find_experiment("delay-stability").answer({})
    marks = (1, 2, 5, 10, 20)
    seen = [found_in(found, f"largest stable step, delay {tau}, momentum 0").value for tau in marks]
    return Picture(
        "Up to which step is descent on old gradients of a quadratic stable?",
        "delay (updates)", "largest stable step x curvature",
        (
            Line("claimed: 1 / delay", delays, 1 / delays, "claimed"),
            Line("true: 2 sin(pi / (2 (2 delay + 1)))", delays, [largest_stable_step(int(t)) for t in delays], "true"),
            Line("simulated", list(map(float, marks)), seen, "found"),
        ),
        log_x=True, log_y=True,
    )  # fmt: skip


def speed_up() -> Picture:
    """Speed-up over workers for an exchange of half of one worker's computing, which the single worker pays too."""
    from lockstep.evidence.claims.deciders.scaling import speedup

    rho, workers = 0.5, np.geomspace(1, 256, 100)
    marks = [1, 2, 4, 8, 16, 32, 64, 128, 256]
    return Picture(
        "How much faster are n workers if each step pays an exchange of half the computing?",
        "workers", "speed-up",
        (
            Line("claimed bound: n / (1 + (n - 1) rho)", workers, workers / (1 + (workers - 1) * rho), "claimed"),
            Line("true: n (1 + rho) / (1 + n rho)", workers, workers * (1 + rho) / (1 + workers * rho), "true"),
            Line("simulated", list(map(float, marks)), [speedup(n, 1.0, rho) for n in marks], "found"),
        ),
        log_x=True,
    )  # fmt: skip


def root_of_workers() -> Picture:
    """Speed-up over workers for an exchange of 1 % of one worker's computing, with sqrt(n)."""
    from lockstep.evidence.claims.deciders.scaling import speedup

    rho, workers = 0.01, np.geomspace(1, 4096, 100)
    marks = [1, 4, 16, 64, 256, 1024, 4096]
    return Picture(
        "Does the speed-up grow as sqrt(n)? An exchange of 1 % of the computing",
        "workers", "speed-up",
        (
            Line("claimed: sqrt(n)", workers, np.sqrt(workers), "claimed"),
            Line("true: n (1 + rho) / (1 + n rho)", workers, workers * (1 + rho) / (1 + workers * rho), "true"),
            Line("simulated", list(map(float, marks)), [speedup(n, 1.0, rho) for n in marks], "found"),
        ),
        log_x=True, log_y=True,
    )  # fmt: skip


def ring_and_tree() -> Picture:
    """Time of an all-reduce over its size, with and without the latency."""
    from lockstep.evidence.claims.deciders.network import simulated_s, time_s

    ranks, latency_s, rate_Bps = 256, 1e-5, 50e9
    sizes = np.geomspace(1e5, 1e9, 60)
    marks = np.geomspace(1e5, 1e9, 5)

    def seconds(name: str) -> list[float]:
        return [time_s(ranks, float(size), latency_s, rate_Bps, name) for size in sizes]

    return Picture(
        "Is a ring the fastest all-reduce? 256 ranks, 10 us, 50 GB/s",
        "buffer (bytes)", "time (seconds)",
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
    from lockstep.evidence.claims.deciders.pipelines import busy, busy_frac

    stages, numbers = 8, np.arange(1, 129)
    marks = [1, 2, 4, 8, 16, 32, 64, 128]
    return Picture(
        "How many micro-batches does a pipeline of 8 stages need?",
        "micro-batches", "share of the step in which devices compute",
        (
            Line("claimed: 90 % from 10 on", [10, 128], [0.9, 0.9], "claimed"),
            Line("true: m / (m + p - 1)", numbers, [busy_frac(stages, int(m)) for m in numbers], "true"),
            Line("simulated, 1F1B", list(map(float, marks)), [busy(stages, m) for m in marks], "found"),
        ),
        log_x=True,
    )  # fmt: skip


def checkpoint_interval() -> Picture:
    """Overhead over the interval, to first order and exactly."""
    from lockstep.evidence.claims.deciders.checkpoints import first_order, overhead, simulated_overhead

    mtbf_h, write_h = 10.0, 5.0
    hours = np.geomspace(1.5, 30, 60)
    marks = (2.0, 4.0, 7.0, 10.0, 20.0)
    return Picture(
        "Which interval between checkpoints costs least? 10 h between failures, 5 h to write",
        "interval (hours of work)", "overhead (time lost over useful work)",
        (
            Line("claimed: C / t + t / (2 M)", hours, [first_order(mtbf_h, write_h, t) for t in hours], "claimed"),
            Line("true: M (exp((t + C) / M) - 1) / t - 1", hours,
                 [overhead(mtbf_h, write_h, t) for t in hours], "true"),
            Line("simulated", list(marks), [simulated_overhead(mtbf_h, write_h, t).value for t in marks], "found"),
        ),
        log_x=True, log_y=True,
    )  # fmt: skip


def noise_floor() -> Picture:
    """Stationary loss over the batch size."""
    from lockstep.evidence.claims.deciders.table import found_in
    from lockstep.lab import find_experiment
    from lockstep.lab.laws import stationary_variance

    batches = np.geomspace(1, 64, 50)
    found = find_experiment("sgd-bound").answer({})
    marks = (1, 8, 64)
    floors = stationary_variance(0.5, 1.0, 1 / batches) / 2
    return Picture(
        "Does the noise of SGD grow with the batch size? Step 0.5 / L",
        "batch size", "stationary loss (units of s^2 / L)",
        (
            Line("claimed: in proportion to B", batches, float(floors[0]) * batches, "claimed"),
            Line("true: a s^2 / (2 B (2 - a L))", batches, floors, "true"),
            Line("simulated", list(map(float, marks)),
                 [found_in(found, f"floor, batch {b}, a L = 0.5").value for b in marks], "found"),
        ),
        log_x=True, log_y=True,
    )  # fmt: skip


def local_period() -> Picture:
    """Time of a run over the local steps between averages."""
    penalty, ratio = 0.0556, 10.0
    periods = np.geomspace(1, 100, 100)
    seconds = (1 + penalty * (periods - 1)) * (1 + ratio / periods)
    best, printed = ((1 - penalty) * ratio / penalty) ** 0.5, ratio**0.5
    return Picture(
        "How many local steps between averages? 5.6 % more steps each, an exchange of 10 steps",
        "local steps K", "time of the run (of its steps without exchange)",
        (
            Line("(1 + c (K - 1)) (1 + r / K)", periods, seconds, "true"),
            Line("claimed best: sqrt(r)", [printed, printed], [1.0, float(seconds.max())], "claimed"),
            Line("best: sqrt((1 - c) r / c)", [best], [(1 + penalty * (best - 1)) * (1 + ratio / best)], "found"),
        ),
        log_x=True,
    )  # fmt: skip


def buckets() -> Picture:
    """Time of a backward pass over the layers in a bucket."""
    from lockstep.evidence.claims.deciders.scaling import overlapped_ms

    sizes = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 96]
    return Picture(
        "How many layers to a bucket? 96 layers of 5 ms, 700 MB, 256 workers at 25 GB/s",
        "layers in a bucket", "backward pass with its all-reduces (ms)",
        (
            Line("claimed: 270 ms at 16", [16.0, 96.0], [270.0, 270.0], "claimed"),
            Line("computing alone", [1.0, 96.0], [480.0, 480.0], "true"),
            Line("priced", list(map(float, sizes)), [overlapped_ms(96, size) for size in sizes], "joined"),
        ),
        log_x=True,
    )  # fmt: skip


def hierarchy() -> Picture:
    """Time of flat and hierarchical all-reduces over the number of nodes."""
    from lockstep.evidence.claims.deciders.network import hierarchical_s, time_s

    nodes = [2, 4, 8, 16, 32, 64, 128]
    size_B, outer_Bps = 700e6, 25e9
    flat = [1e3 * time_s(8 * m, size_B, 1e-5, outer_Bps) for m in nodes]
    own = [1e3 * hierarchical_s(8, m, size_B, 600e9, outer_Bps, 1e-6, 1e-5) for m in nodes]
    shared = [1e3 * hierarchical_s(8, m, size_B, 600e9, outer_Bps / 8, 1e-6, 1e-5) for m in nodes]
    x = list(map(float, nodes))
    return Picture(
        "What does hierarchy gain? 700 MB on nodes of 8",
        "nodes", "all-reduce (ms)",
        (
            Line("flat ring over one adapter of 25 GB/s", x, flat, "true"),
            Line("hierarchical, an adapter for each GPU", x, own, "joined"),
            Line("hierarchical, one adapter per node", x, shared, "joined"),
        ),
        log_x=True, log_y=True,
    )  # fmt: skip


def tensor() -> Picture:
    """Share of tensor-parallel traffic over the number of ranks, on two links."""
    from lockstep.evidence.claims.deciders.tensors import product_traffic_frac

    ranks = [2, 4, 8, 16, 32]
    x = list(map(float, ranks))
    return Picture(
        "How much traffic does a tensor-parallel layer add? Width 12,288, 312 TFLOP/s",
        "ranks", "time of traffic over that of the products",
        (
            Line("claimed for 8 ranks: 2.3 %", [2.0, 32.0], [0.023, 0.023], "claimed"),
            Line("300 GB/s", x, [product_traffic_frac(12_288, k, 312e12, 300e9) for k in ranks], "joined"),
            Line("25 GB/s", x, [product_traffic_frac(12_288, k, 312e12, 25e9) for k in ranks], "joined"),
        ),
        log_x=True, log_y=True,
    )  # fmt: skip


def weak_scaling() -> Picture:
    """Efficiency over workers in weak scaling, by all-reduce."""
    from lockstep.evidence.claims.deciders.network import time_s

    numbers = [2**k for k in range(1, 13)]
    x = list(map(float, numbers))

    def efficiency(name: str) -> list[float]:
        return [0.125 / (0.125 + time_s(n, 700e6, 1e-5, 25e9, name)) for n in numbers]

    return Picture(
        "Which share of a data-parallel step is computing? 125 ms each, 700 MB at 25 GB/s and 10 us",
        "workers", "share of computing",
        (
            Line("claimed for 256 workers: 45 %", [2.0, 4096.0], [0.452, 0.452], "claimed"),
            Line("ring", x, efficiency("ring"), "joined"),
            Line("tree", x, efficiency("tree"), "joined"),
            Line("halving and doubling", x, efficiency("rabenseifner"), "joined"),
        ),
        log_x=True,
    )  # fmt: skip


def stragglers() -> Picture:
    """Efficiency over workers with log-normal times of several spreads."""
    from lockstep.evidence.claims.deciders.scaling import expected_slowest

    numbers = [2**k for k in range(11)]
    x = list(map(float, numbers))
    lines = [
        Line(f"cv {cv:g}", x, [1 / expected_slowest(n, cv, "lognormal") for n in numbers], "joined")
        for cv in (0.05, 0.1, 0.2, 0.3, 0.5)
    ]
    printed = Line("claimed at cv 0.05, 0.1, 0.2, 0.5", [256.0] * 4, [0.992, 0.955, 0.901, 0.503], "wrong")
    return Picture(
        "How much of the time is not spent waiting for the slowest worker? Log-normal times",
        "workers", "mean time over mean time of the slowest", (printed, *lines), log_x=True,
    )  # fmt: skip


def depths() -> Picture:
    """Share of computing over micro-batches for several depths."""
    from lockstep.evidence.claims.deciders.pipelines import busy

    numbers = [1, 2, 4, 8, 16, 32, 64, 128]
    x = list(map(float, numbers))
    lines = [
        Line(f"{stages} stages, 1F1B holds {stages}", x, [busy(stages, m) for m in numbers], "joined")
        for stages in (2, 4, 8, 16, 32)
    ]
    return Picture(
        "How many micro-batches does a pipeline need?",
        "micro-batches (GPipe holds them all)", "share of the step in which devices compute",
        (Line("claimed: 90 % from 10 on for 8 stages", [10.0, 128.0], [0.9, 0.9], "claimed"), *lines), log_x=True,
    )  # fmt: skip


def balancing() -> Picture:
    """Gain of shares by speed over equal shares, over workers, for several spreads."""
    from lockstep.evidence.claims.deciders.scaling import balancing_gain

    numbers = [2, 4, 8, 16, 32, 64]
    x = list(map(float, numbers))
    even = Line("uniform, 0.7 to 1.3", x, [balancing_gain(n, spread=0.3).value for n in numbers], "joined")
    lines = [
        Line(f"log-normal, cv {cv:g}", x, [balancing_gain(n, cv=cv).value for n in numbers], "joined")
        for cv in (0.1, 0.3, 0.5)
    ]
    return Picture(
        "What does splitting a batch by speed gain?",
        "workers", "time of equal shares over time of shares by speed",
        (Line("claimed: 1.63 for 16 workers, 0.7 to 1.3", [16.0], [1.63], "wrong"), even, *lines), log_x=True,
    )  # fmt: skip


def sparse_server() -> Picture:
    """Time of a sparse parameter server over the density, beside a dense ring."""
    from lockstep.evidence.claims.deciders.network import server_s, time_s

    densities = np.geomspace(1e-3, 1, 40)
    ranks, size_B, rate_Bps = 256, 700e6, 200e9
    ring_ms = 1e3 * time_s(ranks, size_B, 0.0, rate_Bps)
    lines = [
        Line(
            f"{shards} shard{'s' * (shards > 1)}, values and indices",
            densities,
            [1e3 * 2 * float(d) * server_s(ranks, size_B, rate_Bps, shards) for d in densities],
            "curve",
        )
        for shards in (1, 16, 256)
    ]
    return Picture(
        "When is a sparse parameter server faster than a dense ring? 256 workers, 700 MB, 200 GB/s",
        "density of the gradients", "exchange (ms)",
        (Line("dense ring", [1e-3, 1.0], [ring_ms, ring_ms], "true"), *lines), log_x=True, log_y=True,
    )  # fmt: skip


def expert_load() -> Picture:
    """Largest load over the mean, over the tokens of an expert."""
    from lockstep.evidence.claims.deciders.network import random_load

    tokens = [4, 8, 16, 32, 64, 128, 256]
    x = list(map(float, tokens))
    drawn = {n: [random_load(n, n * t, times=max(4, 200 // n)).value for t in tokens] for n in (8, 64, 256)}
    lines = [Line(f"{n} experts", x, loads, "joined") for n, loads in drawn.items()]
    return Picture(
        "How uneven is uniform random routing?",
        "tokens per expert", "largest load over the mean",
        (Line("claimed: balanced", [4.0, 256.0], [1.0, 1.0], "claimed"), *lines), log_x=True,
    )  # fmt: skip


PICTURES: dict[str, Callable[[], Picture]] = {
    one.__name__.replace("_", "-"): one
    for one in (
        delay_edge, speed_up, root_of_workers, ring_and_tree, pipeline, checkpoint_interval, noise_floor, local_period,
        buckets, hierarchy, tensor, weak_scaling, stragglers, depths, balancing, sparse_server, expert_load,
    )
}  # fmt: skip
"""By the names that entries give them."""
