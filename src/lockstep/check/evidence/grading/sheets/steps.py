"""Sheets about steps: stragglers (C.2), pipelines (C.5), uneven workers (C.8) and buckets (C.10)."""

from __future__ import annotations

import math

from lockstep.check.evidence.claims.deciders import network, pipelines, scaling
from lockstep.check.evidence.grading.sheet import Answer, Given, Input, Sheet, Slip, whole
from lockstep.simulate.failures.stragglers import Balance, balance


def _law(mean: float, cv: float) -> str:
    return f"lognormal:mean={mean!r},cv={cv!r}"


def _split(every_speed: tuple[float, ...], batch: float) -> Balance:
    return balance(every_speed, whole(batch))


def _of(worker: float) -> int:
    return whole(worker) - 1


def _bucket_s(size: float, layers: float, per_bucket: float, ranks: float, latency: float, bandwidth: float) -> float:
    return network.time_s(whole(ranks), size * per_bucket / layers, latency, bandwidth)


def _through_s(layers: float, layer: float, size: float, ranks: float, per_bucket: float, bucket: float) -> float:
    """Seconds until the last bucket is through, each of which takes `bucket`: on a link without latency.

    The layers of a bucket are handed over together, so that they count as one.
    """
    rate_Bps = _bucket_s(size, layers, per_bucket, ranks, 0.0, 1.0) / bucket
    buckets = whole(layers / per_bucket, MOST)
    return scaling.overlapped_s(buckets, per_bucket * layer, size, whole(ranks), 0.0, rate_Bps, 1)


MOST = 150
"""Stages, micro-batches and buckets that are played."""
SHEETS = (
    Sheet(
        "C.2",
        "The times of all workers for a step are drawn anew from one log-normal law, and all wait for the slowest. "
        "Give for each coefficient of variation the expected time of the slowest worker, and the share of that "
        "time in which a worker computes on average.",
        (
            Given("workers", "workers", "count", "", (256, 16, 32, 64, 128, 512)),
            Given("mean", "mean time of a worker", "time", "ms", (50, 40, 80, 120, 200)),
        ),
        (Input("cv", "coefficient of variation", "number", "", (
            (0.05, 0.1, 0.2, 0.3, 0.5), (0.08, 0.15, 0.25, 0.35, 0.6), (0.1, 0.2, 0.4, 0.5, 0.7),
        ), ("cv", "variation", "spread")),),
        (
            Answer("slowest", "expected time of the slowest worker", "time", "ms",
                   lambda workers, mean, cv: scaling.slowest(whole(workers), _law(mean, cv)),
                   ("slowest", "max", "e max", "expected max", "step")),
            Answer("efficiency", "mean time over that of the slowest", "share", "",
                   lambda mean, slowest: mean / slowest, ("efficiency", "eff", "utilization")),
        ),
        (
            Slip("the mean for the maximum: nobody waits", {"slowest": lambda mean: mean}),
            Slip("the normal law's bound mean + deviation x sqrt(2 ln n)", {
                "slowest": lambda workers, mean, cv: mean * (1 + cv * math.sqrt(2 * math.log(workers)))}),
            Slip("the coefficient of variation taken for the deviation of the logarithm", {
                "slowest": lambda workers, mean, cv: scaling.slowest(
                    whole(workers), _law(mean, math.sqrt(math.expm1(cv * cv))))}),
            Slip("the median for the mean of a worker's time", {
                "efficiency": lambda mean, cv, slowest: mean / math.sqrt(1 + cv * cv) / slowest}),
        ),
    ),
    Sheet(
        "C.5",
        "A pipeline of equal stages runs 1F1B; a message takes no time. Give for each number of micro-batches the "
        "share of a step in which a stage waits, the time of the step, and the micro-batches whose activations the "
        "first stage holds at most.",
        (
            Given("stages", "stages", "count", "", (8, 4, 6, 10, 12)),
            Given("forward", "forward pass of a micro-batch on a stage", "time", "ms", (10, 4, 6, 15, 25)),
            Given("backward", "backward pass of a micro-batch on a stage", "time", "ms", (20, 9, 14, 26, 32)),
        ),
        (Input("microbatches", "micro-batches", "count", "", (
            (1, 2, 4, 8, 16, 32, 63), (2, 3, 6, 12, 24, 48), (4, 5, 10, 20, 40, 60)),
            ("m", "microbatches", "micro batches")),),
        (
            Answer("bubble", "share of a step in which a stage waits", "share", "",
                   lambda stages, microbatches: 1 - pipelines.busy_frac(stages, microbatches, 1),
                   ("bubble", "idle", "bubble share", "bubble fraction")),
            Answer("step", "time of a step", "time", "ms",
                   lambda microbatches, forward, backward, stages: microbatches * (forward + backward)
                   / pipelines.busy_frac(stages, microbatches, 1), ("step", "makespan", "iteration")),
            Answer("held", "micro-batches that the first stage holds at most", "count", "",
                   lambda stages, microbatches: pipelines.held(whole(stages, MOST), whole(microbatches, MOST), "1f1b"),
                   ("held", "peak", "live", "in flight", "activations")),
        ),
        (
            Slip("m for m + p - 1: the bubble over the work and not over the step", {
                "bubble": lambda stages, microbatches: (stages - 1) / microbatches}),
            Slip("the warm-up of p - 1 micro-batches forgotten", {
                "bubble": lambda: 0.0,
                "step": lambda microbatches, forward, backward: microbatches * (forward + backward)}),
            Slip("p for p - 1 in the bubble, over m + p", {
                "bubble": lambda stages, microbatches: stages / (microbatches + stages),
                "step": lambda stages, microbatches, forward, backward: (microbatches + stages)
                * (forward + backward)}),
            Slip("m + p for m + p - 1", {
                "bubble": lambda stages, microbatches: (stages - 1) / (microbatches + stages),
                "step": lambda stages, microbatches, forward, backward: (microbatches + stages)
                * (forward + backward)}),
            Slip("the warm-up counted twice, before and after: 2 (p - 1) for p - 1", {
                "bubble": lambda stages, microbatches: 2 * (stages - 1) / (microbatches + 2 * (stages - 1)),
                "step": lambda stages, microbatches, forward, backward: (microbatches + 2 * (stages - 1))
                * (forward + backward)}),
            Slip("the stages one after the other, as without a pipeline", {
                "bubble": lambda stages: 1 - 1 / stages,
                "step": lambda stages, microbatches, forward, backward: microbatches * stages * (forward + backward)}),
            Slip("the warm-up of forward passes alone", {
                "step": lambda stages, microbatches, forward, backward: microbatches * (forward + backward)
                + (stages - 1) * forward}),
            Slip("all micro-batches held, as GPipe does", {"held": lambda microbatches: microbatches}),
            Slip("as many held as there are stages, also where there are fewer micro-batches", {
                "held": lambda stages: stages}),
        ),
    ),
    Sheet(
        "C.8",
        "A batch is split over workers of different speeds, once in equal shares and once so that all end "
        "together. Give for each worker its time with an equal share, its samples in the balanced split, and its "
        "time with these.",
        (Given("batch", "samples of the batch", "count", "", (20000, 12000, 16000, 24000, 32000)),),
        (
            Input("worker", "worker", "count", "", (tuple(range(1, 9)), tuple(range(1, 7)), tuple(range(1, 11))),
                  ("worker", "rank", "id")),
            Input("speed", "samples per second", "number", "", (
                (700, 780, 860, 940, 1060, 1140, 1220, 1300), (420, 510, 560, 610, 680, 820),
                (310, 350, 390, 400, 430, 450, 480, 520, 560, 610)), ("speed", "samples s", "rate")),
        ),
        (
            Answer("equal", "time with an equal share", "time", "s",
                   lambda every_speed, batch, worker, speed:
                   _split(every_speed, batch).static_shares[_of(worker)] / speed,
                   ("equal", "static", "equal share", "static time")),
            Answer("samples", "samples in the balanced split", "count", "",
                   lambda every_speed, batch, worker: _split(every_speed, batch).shares[_of(worker)],
                   ("samples", "share", "balanced samples", "balanced share")),
            Answer("balanced", "time in the balanced split", "time", "s", lambda samples, speed: samples / speed,
                   ("balanced", "dynamic", "balanced time")),
        ),
        (
            Slip("every worker given the samples of the mean", {
                "samples": lambda every_speed, batch: batch / len(every_speed)}),
            Slip("the slowest worker's time for the own", {
                "equal": lambda every_speed, batch: _split(every_speed, batch).static_s}),
            Slip("samples in proportion to times instead of speeds", {
                "samples": lambda every_speed, batch, speed: batch / speed / sum(1 / one for one in every_speed)}),
            Slip("the batch not divided among the workers", {"equal": lambda batch, speed: batch / speed}),
        ),
    ),
    Sheet(
        "C.10",
        "The backward pass of equal layers hands their gradients to a ring all-reduce bucket by bucket; one bucket "
        "is under way at a time, beside the computing. Give for each number of layers in a bucket the time of one "
        "bucket, the time until the last is through, and the part of it that lies after the computing.",
        (
            Given("layers", "layers", "count", "", (96, 48)),
            Given("layer", "backward pass of a layer", "time", "ms", (5, 2, 3, 8)),
            Given("size", "gradients of all layers", "size", "MB", (700, 300, 500, 900)),
            Given("ranks", "ranks", "count", "", (256, 32, 64, 128)),
            Given("latency", "latency of a message", "time", "us", (10, 5, 8, 15)),
            Given("bandwidth", "bandwidth of a rank, one way", "bandwidth", "GB/s", (25, 12.5, 20, 50)),
        ),
        (Input("per_bucket", "layers in a bucket", "count", "", ((1, 2, 4, 8, 16, 24, 48), (1, 2, 3, 6, 12, 16, 24)),
               ("layers per bucket", "bucket size", "b", "per bucket")),),
        (
            Answer("bucket", "time of the all-reduce of one bucket", "time", "ms", _bucket_s,
                   ("bucket", "all reduce", "allreduce", "bucket time")),
            Answer("step", "time until the last bucket is through", "time", "ms", _through_s,
                   ("step", "end", "backward", "total")),
            Answer("exposed", "time of it after the computing", "time", "ms",
                   lambda step, layers, layer: step - layers * layer, ("exposed", "exposed comm", "not hidden")),
        ),
        (
            Slip("perfect overlap: the larger of computing and sending, the last bucket forgotten", {
                "step": lambda layers, layer, bucket, per_bucket: max(layers * layer, bucket * layers / per_bucket)}),
            Slip("no overlap: computing and sending one after the other", {
                "step": lambda layers, layer, bucket, per_bucket: layers * layer + bucket * layers / per_bucket}),
            Slip("one bucket after the computing, whether or not earlier ones are through", {
                "step": lambda layers, layer, bucket: layers * layer + bucket}),
            Slip("the bucket sent once, without the rounds of a ring", {
                "bucket": lambda size, layers, per_bucket, latency, bandwidth: latency
                + size * per_bucket / layers / bandwidth}),
            Slip("one latency for all rounds of the ring", {
                "bucket": lambda size, layers, per_bucket, ranks, latency, bandwidth: latency
                + _bucket_s(size, layers, per_bucket, ranks, 0.0, bandwidth)}),
        ),
    ),
)  # fmt: skip
