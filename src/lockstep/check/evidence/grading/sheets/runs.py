"""Sheets about whole runs: checkpoints and failures (C.14), and how long a large model trains (C.20)."""

from __future__ import annotations

import math

from lockstep.check.evidence.grading.sheet import Answer, Given, Input, Sheet, Slip
from lockstep.simulate.failures import exact_s, first_order_overhead_frac, overhead_frac, young_s

HOUR_S = 3600.0

SHEETS = (
    Sheet(
        "C.14",
        "Nodes fail on their own, at times with an exponential law; a failure of any ends the work since the last "
        "checkpoint, and a restart takes no time. Give for each number of nodes the mean time between failures of "
        "the job, Young's interval between checkpoints, the interval with the least overhead, and the overhead of "
        "that interval: wall time over useful work, minus 1.",
        (
            Given("node_mtbf", "mean time between failures of a node", "time", "d", (1826, 365, 730, 1095, 2555)),
            Given("write", "time to write a checkpoint", "time", "min", (5, 2, 3, 8, 12)),
        ),
        (Input("nodes", "nodes", "count", "", ((10, 50, 100, 500, 1000, 2000), (8, 40, 160, 320, 800)),
               ("n", "nodes", "gpus")),),
        (
            Answer("mtbf", "mean time between failures of the job", "time", "h",
                   lambda node_mtbf, nodes: node_mtbf / nodes, ("mtbf", "m")),
            Answer("young", "Young's interval", "time", "min", lambda write, mtbf: float(young_s(write, mtbf)),
                   ("young", "young interval")),
            Answer("best", "interval with the least overhead", "time", "min",
                   lambda write, mtbf: float(exact_s(write, mtbf)), ("best", "optimum", "exact", "best interval")),
            Answer("overhead", "overhead of that interval", "share", "",
                   lambda best, write, mtbf: float(overhead_frac(best, write, mtbf)), ("overhead",)),
        ),
        (
            Slip("the failures of all nodes forgotten: the mean time of one node", {
                "mtbf": lambda node_mtbf: node_mtbf}),
            Slip("the overhead to first order: writes and half an interval for each failure", {
                "overhead": lambda best, write, mtbf: float(first_order_overhead_frac(best, write, mtbf))}),
            Slip("the overhead of writes alone, without lost work", {"overhead": lambda best, write: write / best}),
            Slip("the overhead of lost work alone, without writes", {"overhead": lambda best, mtbf: best / 2 / mtbf}),
            Slip("a whole interval lost for each failure instead of half", {
                "overhead": lambda best, write, mtbf: write / best + best / mtbf}),
            Slip("Young's interval for the best one", {"best": lambda young: young}),
            Slip("the interval less the time of a write, or that time more", {
                "young": lambda write, mtbf: math.sqrt(2 * write * mtbf) - write,
                "best": lambda write, mtbf: float(exact_s(write, mtbf)) + write}),
        ),
    ),
    Sheet(
        "C.20",
        "A dense model trains on so many tokens, at 6 FLOPs for each parameter and token. Give for each model "
        "FLOPs utilisation the days of the run, its GPU hours, its price, and the time of a step of the given "
        "batch.",
        (
            Given("parameters", "parameters", "count", "", (70e9, 7e9, 13e9, 30e9, 40e9)),
            Given("tokens", "tokens of the run", "count", "", (2e12, 3e11, 5e11, 1e12, 1.5e12)),
            Given("gpus", "GPUs", "count", "", (256, 64, 128, 384, 512)),
            Given("peak", "peak rate of a GPU", "flops", "TFLOP/s", (312, 125, 989)),
            Given("batch", "tokens of a step", "count", "", (4e6, 1e6, 2e6)),
            Given("price", "price of a GPU hour in dollars", "number", "", (2, 1.5, 2.5, 3)),
        ),
        (Input("mfu", "model FLOPs utilisation", "share", "", ((0.3, 0.4, 0.45, 0.5), (0.25, 0.35, 0.42, 0.55)),
               ("mfu", "utilisation", "utilization")),),
        (
            Answer("run", "time of the run", "time", "d",
                   lambda parameters, tokens, gpus, peak, mfu: 6 * parameters * tokens / (gpus * peak * mfu),
                   ("run", "days", "duration", "training")),
            Answer("gpu_hours", "GPU hours", "number", "", lambda run, gpus: run * gpus / HOUR_S,
                   ("gpu hours", "gpu h", "gpuhours")),
            Answer("cost", "price of the run in dollars", "number", "", lambda gpu_hours, price: gpu_hours * price,
                   ("cost", "price", "usd", "dollars")),
            Answer("step", "time of a step", "time", "s",
                   lambda run, batch, tokens: run * batch / tokens,
                   ("step", "iteration", "step time")),
        ),
        (
            Slip("the backward pass forgotten: 2 FLOPs for 6", {
                "run": lambda parameters, tokens, gpus, peak, mfu: 2 * parameters * tokens / (gpus * peak * mfu)}),
            Slip("activations computed again: 8 FLOPs for 6", {
                "run": lambda parameters, tokens, gpus, peak, mfu: 8 * parameters * tokens / (gpus * peak * mfu)}),
        ),
    ),
)  # fmt: skip
