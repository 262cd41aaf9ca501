"""Pictures that answer exercises: what was claimed next to what is priced, solved or simulated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lockstep.check.evidence.claims.picture import Line, Picture

if TYPE_CHECKING:
    from lockstep.simulate.program import Timeline


def buckets() -> Picture:
    """Time of a backward pass over the layers in a bucket."""
    from lockstep.check.evidence.claims.deciders.scaling import overlapped_s

    sizes = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 96]
    seen = [1e3 * overlapped_s(96, 5e-3, 700e6, 256, 1e-5, 25e9, size) for size in sizes]
    return Picture(
        "How many layers to a bucket? 96 layers of 5 ms, 700 MB, 256 workers at 25 GB/s",
        "layers in a bucket", "backward pass with its all-reduces, milliseconds",
        (
            Line("claimed: 650 ms at 2, 270 at 16", [2.0, 16.0], [650.0, 270.0], "wrong"),
            Line("computing alone", [1.0, 96.0], [480.0, 480.0], "true"),
            Line("priced", list(map(float, sizes)), seen, "joined"),
        ),
        log_x=True,
    )  # fmt: skip


def hierarchy() -> Picture:
    """Time of flat and hierarchical all-reduces over the number of nodes."""
    from lockstep.check.evidence.claims.deciders.network import hierarchical_s, time_s

    nodes = [2, 4, 8, 16, 32, 64, 128]
    size_B, outer_Bps = 700e6, 25e9
    flat = [1e3 * time_s(8 * m, size_B, 1e-5, outer_Bps) for m in nodes]
    own = [1e3 * hierarchical_s(8, m, size_B, 600e9, outer_Bps, 1e-6, 1e-5) for m in nodes]
    shared = [1e3 * hierarchical_s(8, m, size_B, 600e9, outer_Bps / 8, 1e-6, 1e-5) for m in nodes]
    rotated = [1e3 * hierarchical_s(8, m, size_B, 600e9, outer_Bps, 1e-6, 1e-5, algorithm="ring") for m in nodes]
    x = list(map(float, nodes))
    return Picture(
        "What does hierarchy gain? 700 MB on nodes of 8",
        "nodes", "all-reduce, milliseconds",
        (
            Line("claimed on 32 nodes: flat 103.2, hierarchical over one adapter 23.45", [32.0, 32.0], [103.2, 23.45],
                 "wrong"),
            Line("flat ring over one adapter of 25 GB/s", x, flat, "true"),
            Line("flat rings rotated over an adapter for each GPU", x, rotated, "joined"),
            Line("hierarchical, an adapter for each GPU", x, own, "joined"),
            Line("hierarchical, one adapter per node", x, shared, "joined"),
        ),
        log_x=True, log_y=True,
    )  # fmt: skip


def tensor() -> Picture:
    """Share of tensor-parallel traffic over the number of ranks, on two links."""
    from lockstep.check.evidence.claims.deciders.tensors import product_traffic_frac

    ranks = [2, 4, 8, 16, 32]
    x = list(map(float, ranks))
    return Picture(
        "How much traffic does a tensor-parallel layer add? Width 12,288, 312 TFLOP/s",
        "ranks", "time of traffic over that of the products",
        (
            Line("claimed for 8 ranks: 2.3 %", [2.0, 32.0], [0.023, 0.023], "claimed"),
            Line("300 GB/s", x, [product_traffic_frac(12_288, k, 1, 2048, 312e12, 300e9) for k in ranks], "joined"),
            Line("25 GB/s", x, [product_traffic_frac(12_288, k, 1, 2048, 312e12, 25e9) for k in ranks], "joined"),
        ),
        log_x=True, log_y=True,
    )  # fmt: skip


def stragglers() -> Picture:
    """Efficiency over workers with log-normal times of several spreads."""
    from lockstep.check.evidence.claims.deciders.scaling import slowest

    numbers = [2**k for k in range(11)]
    x = list(map(float, numbers))
    lines = [
        Line(f"cv {cv:g}", x, [1 / slowest(n, f"lognormal:mean=1,cv={cv}") for n in numbers], "joined")
        for cv in (0.05, 0.1, 0.2, 0.3, 0.5)
    ]
    printed = Line("claimed at cv 0.05, 0.1, 0.2, 0.5", [256.0] * 4, [0.992, 0.955, 0.901, 0.503], "wrong")
    return Picture(
        "How much of the time is not spent waiting for the slowest worker? Log-normal times",
        "workers", "mean time over mean time of the slowest", (printed, *lines), log_x=True,
    )  # fmt: skip


def balancing() -> Picture:
    """Gain of shares by speed over equal shares, over workers, for several spreads."""
    from lockstep.check.evidence.claims.deciders.scaling import balancing_gain

    numbers = [2, 4, 8, 16, 32, 64]
    x = list(map(float, numbers))
    laws = {"uniform, 0.7 to 1.3": "uniform:low=0.7,high=1.3"}
    laws |= {f"log-normal, cv {cv:g}": f"lognormal:mean=1,cv={cv}" for cv in (0.1, 0.3, 0.5)}
    lines = [
        Line(label, x, [float(balancing_gain(n, law, 4 * n, 300, 0).mean()) for n in numbers], "joined")
        for label, law in laws.items()
    ]
    return Picture(
        "What does splitting a batch by speed gain?",
        "workers", "time of equal shares over time of shares by speed",
        (Line("claimed: 1.63 for 16 workers, 0.7 to 1.3", [16.0], [1.63], "wrong"), *lines), log_x=True,
    )  # fmt: skip


def sparse_server() -> Picture:
    """Time of a sparse parameter server over the density, beside a dense ring."""
    from lockstep.check.evidence.claims.deciders.network import server_s, time_s

    densities = np.geomspace(1e-3, 1, 40)
    ranks, size_B, rate_Bps = 256, 700e6, 200e9
    ring_ms = 1e3 * time_s(ranks, size_B, 0.0, rate_Bps)
    lines = [
        Line(
            f"{shards} shard{'s' * (shards > 1)}, values and indices",
            densities,
            [1e3 * 2 * float(d) * server_s(ranks, size_B, rate_Bps, shards, 0.0) for d in densities],
            "curve",
        )
        for shards in (1, 16, 256)
    ]
    return Picture(
        "When is a sparse parameter server faster than a dense ring? 256 workers, 700 MB, 200 GB/s",
        "density of the gradients", "exchange, milliseconds",
        (Line("dense ring", [1e-3, 1.0], [ring_ms, ring_ms], "true"), *lines), log_x=True, log_y=True,
    )  # fmt: skip


def expert_load() -> Picture:
    """Largest load over the mean, over the tokens of an expert."""
    from lockstep.check.evidence.claims.deciders.network import random_load

    tokens = [4, 8, 16, 32, 64, 128, 256]
    x = list(map(float, tokens))
    drawn = {n: [float(random_load(n, n * t, max(4, 200 // n), 0).mean()) for t in tokens] for n in (8, 64, 256)}
    lines = [Line(f"{n} experts", x, loads, "joined") for n, loads in drawn.items()]
    return Picture(
        "How uneven is uniform random routing?",
        "tokens per expert", "largest load over the mean",
        (Line("all experts alike", [4.0, 256.0], [1.0, 1.0], "true"), *lines), log_x=True,
    )  # fmt: skip


def worker_timeline() -> Picture:
    """A step with a straggler, worker by worker."""
    title = "Who waits in a step of 8 workers if one of them takes 1.4 times as long?"
    return Picture(title, timeline=_step_with_a_straggler())


def _step_with_a_straggler() -> Timeline:
    """8 workers with 125 ms of computing, one of them slower, then a ring all-reduce of 700 MB."""
    from lockstep.simulate.collectives import PlainLink
    from lockstep.simulate.failures.stragglers import LateRank
    from lockstep.simulate.parallel.data import Layers
    from lockstep.simulate.parallel.data.buckets import program
    from lockstep.simulate.parallel.group import Traffic, on_link
    from lockstep.simulate.play import simulate

    traffic = Traffic(on_link(8, PlainLink(1e-5, 25e9)), "ring")
    step = program(Layers.equal(1, 0.083, 700e6, 0.042), traffic, [1])
    late = LateRank(5, factor=1.4).applied(step)
    return simulate(late, price=lambda op, algorithm, ranks, size_B: float(traffic.time_s(op, size_B)))


def depths() -> Picture:
    """Share of computing over micro-batches for several depths; colours are the activations that GPipe holds."""
    from lockstep.check.evidence.claims.deciders.pipelines import busy
    from lockstep.check.evidence.claims.deciders.tensors import held_B

    numbers = [1, 2, 4, 8, 16, 32, 64, 128]
    x = list(map(float, numbers))
    whole_GB = 96 * held_B("gpt3-175b", 1, 2048) / 1e9
    lines = [
        Line(f"{stages} stages", x, [busy(stages, m, "gpipe") for m in numbers], "shaded",
             [whole_GB / stages * m for m in numbers])
        for stages in (2, 4, 8, 16, 32)
    ]  # fmt: skip
    return Picture(
        "How many micro-batches does a pipeline need, and what does it hold? GPT-3 175B, one sequence each",
        "micro-batches", "share of the step in which devices compute",
        (Line("claimed: 90 % from 10 on for 8 stages", [10.0, 128.0], [0.9, 0.9], "claimed"), *lines), log_x=True,
        shade="activations that the first stage holds with GPipe, GB",
    )  # fmt: skip


def compression() -> tuple[Picture, ...]:
    """Loss of compressed descent over steps and over seconds, at the best step size of each compressor."""
    from lockstep.learn.lab.experiments.compression.compression_time import Settings, label, priced_runs

    shown = ("none", "int8 bits=4", "one-bit+ef", "top-k+ef keep_frac=0.1", "top-k+ef keep_frac=0.01",
             "top-k keep_frac=0.1")  # fmt: skip
    settings = Settings()
    runs = {label(one.made): one for one in priced_runs(settings)}
    chosen = {name: one for name, one in runs.items() if name in shown}
    steps, seconds = [], []
    for name, one in chosen.items():
        kind = "dashed" if name.startswith("int8") else "curve"  # as many steps as without compression
        count = np.arange(len(one.run.losses), dtype=float)
        steps.append(Line(name, count, one.run.losses, kind))
        seconds.append(Line(name, one.here_s(settings) * count, one.run.losses, kind))
    on = "10^8 entries, 8 ranks at 10 Gbit/s, 0.1 s of computing"
    return (
        Picture("How many more steps does compression take?", "steps", "loss over the first", tuple(steps), log_y=True),
        Picture(f"And over seconds? {on}", "time, seconds", "loss over the first", tuple(seconds), log_y=True),
    )


def best_interval() -> Picture:
    """Overhead over the interval of exercise C.14, exactly and simulated."""
    from lockstep.check.evidence.claims.deciders.checkpoints import overhead, simulated_overhead

    mtbf_h, write_h = 21.0, 1 / 12
    hours = np.geomspace(0.25, 12, 60)
    marks = (0.25, 0.5, 1.0, 1.8157, 4.0, 8.0)
    seen = [float(simulated_overhead(mtbf_h, write_h, t, 200 * mtbf_h, 400, 0).mean()) for t in marks]
    return Picture(
        "Which interval between checkpoints costs least? 21 h between failures, 5 minutes a write",
        "interval, hours of work", "overhead, time lost over useful work",
        (
            Line("true: M (exp((t + C) / M) - 1) / t - 1", hours,
                 [overhead(mtbf_h, write_h, t) for t in hours], "true"),
            Line("simulated", list(marks), seen, "found"),
        ),
        log_x=True, log_y=True,
    )  # fmt: skip


def local_runs() -> tuple[Picture, ...]:
    """Time of a run over the local steps between averages: by the law, and of runs with noisy gradients and times."""
    penalty, ratio = 0.0556, 10.0
    periods = np.geomspace(1, 100, 100)
    seconds = (1 + penalty * (periods - 1)) * (1 + ratio / periods)
    best, printed = ((1 - penalty) * ratio / penalty) ** 0.5, ratio**0.5
    law = Picture(
        "How many local steps between averages? c = 0.056, r = 10",
        "local steps K", "time of the run over its computing at K = 1",
        (
            Line("(1 + c (K - 1)) (1 + r / K)", periods, seconds, "true"),
            Line("claimed best: sqrt(r)", [printed, printed], [1.0, float(seconds.max())], "claimed"),
            Line("best: sqrt((1 - c) r / c)", [best], [(1 + penalty * (best - 1)) * (1 + ratio / best)], "found"),
        ),
        log_x=True,
    )  # fmt: skip
    return law, _noisy_runs()


NOISY: dict[str, Any] = {
    "workers": 8, "axes": 20, "condition": 20.0, "spread": 0.5, "apart": 0.5, "noise": 0.5, "target": 0.03, "most": 480,
    "law": "lognormal:mean=0.05,cv=0.2", "exchange_s": 0.1,
}  # fmt: skip
"""Runs of local SGD, as in the checks of the exercise: steps of 50 ms, an exchange of 100 ms."""
RUNS = 200
SIZES = 0.8 / 2 ** (np.arange(9) / 2)
"""Step sizes of which each K has its best."""


def _noisy_runs() -> Picture:
    """Seconds of simulated runs, each K at its best step size, and the law with the penalty of their steps."""
    from lockstep.check.evidence.claims.deciders.rounds import local_run

    periods = np.array([1, 2, 3, 4, 6, 8, 12, 16, 32])
    tuned = [min(SIZES, key=lambda size: local_run(k, size, "s", 30, 1, **NOISY).mean()) for k in periods.tolist()]
    chosen = list(zip(periods.tolist(), tuned, strict=True))
    steps = np.array([local_run(k, size, "steps", RUNS, 0, **NOISY).mean() for k, size in chosen])
    times_s = np.array([local_run(k, size, "s", RUNS, 0, **NOISY) for k, size in chosen])
    more = periods - 1
    penalty = float(more @ (steps / steps[0] - 1) / (more @ more))
    fine = np.geomspace(1, 32, 100)
    seconds = 0.05 * steps[0] * (1 + penalty * (fine - 1)) * (1 + 2 / fine)
    return Picture(
        "And in simulated runs? 8 workers, noisy gradients and times, r = 2",
        "local steps K", "time to the target, seconds",
        (
            Line(f"law of mean times, c = {penalty:.2g} fitted to the steps", fine, seconds, "true"),
            Line("claimed best: sqrt(r)", [2**0.5, 2**0.5], [0.0, float(seconds.max())], "claimed"),
            Line(f"simulated, mean of {RUNS} runs with 95 % interval", periods.astype(float), times_s.mean(axis=1),
                 "found", half=1.96 * times_s.std(axis=1, ddof=1) / RUNS**0.5),
        ),
        log_x=True,
    )  # fmt: skip


def long_run() -> Picture:
    """Days of Llama 2 70B over GPUs: what the chapter says, what is predicted with its interval, what was reported."""
    from lockstep.check.evidence.claims.deciders.runs import days

    nodes = [16, 32, 64, 128, 256]
    gpus = [8.0 * number for number in nodes]
    found = [
        [days("llama2-70b", f"dgx-a100-80gb:{number}", "megatron-2022", 4096, 1024, 2e12, end) for number in nodes]
        for end in ("least", "expected", "most")
    ]
    least, expected, most = found
    return Picture(
        "How long does a model of 70 billion parameters train on 2 trillion tokens? A100, kernels of 2022",
        "GPUs", "days",
        (
            Line("claimed for a million iterations of unnamed size: 8.1 days", [256.0], [8.1], "wrong"),
            Line("reported for Llama 2: 1,720,320 GPU hours", gpus, [1_720_320 / 24 / n for n in gpus], "true"),
            Line("predicted, best layout", gpus, expected, "joined"),
            Line("90 % interval of the prediction, low end", gpus, least, "curve"),
            Line("90 % interval of the prediction, high end", gpus, most, "curve"),
        ),
        log_x=True, log_y=True,
    )  # fmt: skip


WAYS = ("synchronous", "local:8", "asynchronous", "bounded:2")


def ways() -> tuple[Picture, ...]:
    """Seconds of each way of training to a target, over the rate of links and over how unlike the steps are."""
    from lockstep.check.evidence.claims.deciders.runs import way_seconds

    def drawn(title: str, axis: str, x: list[float], found: list[dict[str, float]]) -> Picture:
        lines = tuple(Line(way, x, [one[way] for one in found], "joined") for way in WAYS)
        return Picture(title, axis, "time to the target, seconds", lines, log_x=True, log_y=True)

    rates_Bps, spreads = [3e8, 1.25e9, 5e9, 2.5e10, 1e12], [0.05, 0.1, 0.3, 1.0]
    by_rate = [way_seconds("lognormal:mean=0.2s,cv=0.3", rate_Bps, 8, 2, 100, 0) for rate_Bps in rates_Bps]
    by_spread = [way_seconds(f"lognormal:mean=0.2s,cv={spread:g}", 2.5e10, 8, 2, 100, 0) for spread in spreads]
    first = "Which way is first? 8 workers, 400 MB, 0.2 s a step with cv 0.3"
    return (
        drawn(first, "bandwidth, bytes per second", rates_Bps, by_rate),
        drawn("And by the spread of the steps, at 25 GB/s?", "coefficient of variation of a step", spreads, by_spread),
    )


ALL = (
    buckets, hierarchy, tensor, worker_timeline, stragglers, depths, balancing, sparse_server, expert_load, compression,
    best_interval, local_runs, long_run, ways,
)  # fmt: skip
"""Every one."""
