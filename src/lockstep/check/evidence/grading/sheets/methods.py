"""Sheets about training methods: C.3, C.6, C.7, C.9, C.13, C.15 and C.16."""

from __future__ import annotations

import math

from lockstep.check.evidence.grading.sheet import Answer, Given, Input, Sheet, Slip, whole
from lockstep.check.evidence.grading.sheets.communication import ring_sent_B
from lockstep.learn.lab.experiments.local.local_period import run_s
from lockstep.learn.lab.experiments.precision.gradient_range import Settings, lost_fracs
from lockstep.learn.lab.laws import best_step, largest_stable_step, stationary_variance
from lockstep.learn.methods.compression import TopK
from lockstep.learn.methods.learning_rate import rule
from lockstep.learn.methods.number_format import number_format

VALUE_B = 4
LONGEST = 50
"""Delay of which the best step is searched."""


def _edge(delay: float) -> float:
    return largest_stable_step(whole(delay))


def _kept_B(elements: float, kept: float) -> float:
    return TopK(kept).size_B(whole(elements))


def _gathered_B(ranks: float, payload: float) -> float:
    """Bytes that a rank sends where the payloads of all ranks are gathered in a ring."""
    return ring_sent_B(ranks, ranks * payload, "all-gather")


def _lost(deviation: float, power: float) -> tuple[float, float, float]:
    return lost_fracs(number_format("fp16"), Settings(size=deviation), 2.0**power)


def _variance(rate: float, curvature: float, noise: float, batch: float) -> float:
    return float(stationary_variance(rate, curvature, noise**2 / batch))


SHEETS = (
    Sheet(
        "C.3",
        "Descent on a quadratic uses gradients that are a constant number of updates old, with the constant step "
        "that is best for this delay. Give for each delay the updates until the distance in the slowest direction "
        "is the target share of the first one, in the long run's rate, and these over the updates without delay.",
        (
            Given("condition", "condition number", "number", "", (100, 20, 40, 60, 150)),
            Given("target", "distance to reach, over the first", "number", "", (1e-4, 1e-2, 1e-3, 1e-5)),
        ),
        (Input("delay", "delay in updates", "count", "", ((0, 1, 2, 5, 10, 20), (0, 1, 3, 4, 8, 15)),
               ("delay", "tau", "staleness")),),
        (
            Answer("rate", "factor of the distance for each update", "number", "",
                   lambda delay, condition: best_step(whole(delay, LONGEST), condition)[1], hidden=True),
            Answer("undelayed", "the same without delay", "number", "",
                   lambda condition: best_step(0, condition)[1], hidden=True),
            Answer("updates", "updates to the target", "number", "",
                   lambda target, rate: math.log(target) / math.log(rate), ("updates", "iterations", "steps")),
            Answer("ratio", "these over the updates without delay", "number", "",
                   lambda rate, undelayed: math.log(undelayed) / math.log(rate), ("ratio", "slowdown", "quotient")),
        ),
        (
            Slip("updates in proportion to 1 + delay", {
                "updates": lambda target, undelayed, delay: math.log(target) / math.log(undelayed) * (1 + delay),
                "ratio": lambda delay: 1 + delay}),
            Slip("the factor of a loss for that of a distance: half as many updates", {
                "updates": lambda target, rate: math.log(target) / math.log(rate) / 2}),
            Slip("the step 1 / L for the best one, where nothing is late", {
                "undelayed": lambda condition: 1 - 1 / condition}),
        ),
    ),
    Sheet(
        "C.6",
        "Gradients in 32 bits are cut to their largest entries, which are sent with indices of 32 bits. As every "
        "rank has other entries, they are gathered: in a ring each rank sends what it has received on, to all "
        "others. Give for each share of entries that is kept the bytes of one rank's entries, the factor by which "
        "they are fewer than the dense gradients, the bytes that a rank sends in the all-gather, and those of a "
        "dense ring all-reduce over them.",
        (
            Given("elements", "entries of the gradients", "count", "", (175e6, 50e6, 100e6, 125e6, 250e6)),
            Given("ranks", "ranks", "count", "", (32, 8, 12, 16, 24, 64)),
        ),
        (Input("kept", "share of the entries that is kept", "share", "", (
            (0.001, 0.01, 0.05, 0.1, 0.25), (0.002, 0.005, 0.02, 0.04, 0.2)),
               ("density", "kept share", "ratio", "k")),),
        (
            Answer("payload", "bytes of one rank's entries", "size", "MB", _kept_B,
                   ("payload", "message", "bytes", "compressed")),
            Answer("factor", "dense gradients over them", "number", "",
                   lambda elements, payload: VALUE_B * elements / payload, ("factor", "compression", "saved factor")),
            Answer("gathered", "bytes that a rank sends in the all-gather", "size", "MB", _gathered_B,
                   ("gathered", "all gather", "allgather", "sent")),
            Answer("gain", "bytes of a dense ring over them", "number", "",
                   lambda ranks, elements, gathered: ring_sent_B(ranks, VALUE_B * elements) / gathered,
                   ("gain", "dense over gathered", "advantage")),
        ),
        (
            Slip("the bytes of the indices forgotten", {"payload": lambda elements, kept: VALUE_B * elements * kept}),
            Slip("indices of 64 bits for 32", {
                "payload": lambda elements, kept: TopK(kept, index_bits=64).size_B(whole(elements))}),
            Slip("the entries summed in a ring as if all ranks kept the same ones", {
                "gathered": lambda ranks, payload: ring_sent_B(ranks, payload)}),
        ),
    ),
    Sheet(
        "C.7",
        "Workers average their parameters after every K steps. Reaching the target takes 1 + c (K - 1) times the "
        "steps of K = 1. Give for each K the steps, the time of the run, and the share of it in which workers "
        "compute.",
        (
            Given("steps", "steps for K = 1", "count", "", (1000, 400, 600, 2000, 5000)),
            Given("compute", "computing of a step", "time", "ms", (50, 20, 40, 80, 120)),
            Given("exchange", "one average", "time", "ms", (100, 150, 250, 400, 700)),
            Given("penalty", "c, more steps for each local step", "share", "", (0.07, 0.02, 0.03, 0.05, 0.1)),
        ),
        (Input("period", "K, steps between averages", "count", "", ((1, 2, 4, 8, 16, 32), (1, 3, 5, 10, 20, 40)),
               ("k", "local steps", "period")),),
        (
            Answer("needed", "steps to the target", "count", "",
                   lambda steps, penalty, period: steps * (1 + penalty * (period - 1)),
                   ("needed", "steps", "updates", "iterations")),
            Answer("run", "time of the run", "time", "s",
                   lambda needed, period, compute, exchange: run_s(needed, period, compute, exchange),
                   ("run", "total", "wall clock", "seconds")),
            Answer("computing", "share of the run in which workers compute", "share", "",
                   lambda compute, needed, run: needed * compute / run, ("computing", "compute share", "efficiency")),
        ),
        (
            Slip("K for K - 1 in the penalty", {
                "needed": lambda steps, penalty, period: steps * (1 + penalty * period)}),
            Slip("the penalty forgotten: as many steps for every K", {"needed": lambda steps: steps}),
            Slip("K exchanges for each average instead of one in K steps", {
                "run": lambda needed, period, compute, exchange: run_s(needed, 1, compute, exchange * period)}),
            Slip("the penalty compounded: (1 + c) to the power of K - 1", {
                "needed": lambda steps, penalty, period: steps * (1 + penalty) ** (period - 1)}),
            Slip("an exchange after every step", {
                "run": lambda needed, compute, exchange: run_s(needed, 1, compute, exchange)}),
        ),
    ),
    Sheet(
        "C.9",
        "Gradients follow a normal law of mean 0. They are multiplied by a loss scale and rounded to fp16, "
        "subnormal numbers included. Give for each scale 2^power the share that becomes zero, that is subnormal, "
        "and that overflows.",
        (Given("deviation", "standard deviation of the gradients", "number", "", (1e-4, 2e-5, 5e-5, 2e-4, 5e-4)),),
        (Input("power", "power of two of the loss scale", "count", "", (
            (0, 2, 4, 8, 28, 29, 30), (0, 1, 3, 6, 27, 29, 31)), ("power", "log2 scale", "exponent")),),
        (
            Answer("zero", "share that becomes zero", "share", "", lambda deviation, power: _lost(deviation, power)[0],
                   ("zero", "underflow", "flushed")),
            Answer("subnormal", "share that is subnormal", "share", "",
                   lambda deviation, power: _lost(deviation, power)[1], ("subnormal", "denormal")),
            Answer("overflow", "share that overflows", "share", "",
                   lambda deviation, power: _lost(deviation, power)[2], ("overflow", "inf", "infinite")),
        ),
        (
            Slip("everything below the smallest normal number taken for zero", {
                "zero": lambda deviation, power: sum(_lost(deviation, power)[:2]), "subnormal": lambda: 0.0}),
            Slip("positive gradients alone: half of the law", {
                name: lambda deviation, power, place=place: _lost(deviation, power)[place] / 2
                for place, name in enumerate(("zero", "subnormal", "overflow"))}),
        ),
    ),
    Sheet(
        "C.13",
        "Descent on a quadratic of curvature L uses gradients of a constant age. Give for each delay the largest "
        "stable step times L, that of updates weighted by 1 / (1 + delay), and the limit of the plain step over "
        "the one without delay.",
        (Given("curvature", "L", "number", "", (1, 2, 4, 5, 8)),),
        (Input("delay", "delay in updates", "count", "", ((0, 1, 2, 5, 10, 20), (0, 1, 3, 4, 8, 15)),
               ("delay", "tau", "staleness")),),
        (
            Answer("edge", "largest stable step times L", "number", "", _edge, ("edge", "limit", "plain")),
            Answer("step", "largest stable step", "number", "", lambda edge, curvature: edge / curvature,
                   ("step", "learning rate", "step size")),
            Answer("weighted", "edge of weighted updates times L", "number", "", lambda delay, edge: (1 + delay) * edge,
                   ("weighted", "weighted edge", "weighted limit")),
        ),
        (
            Slip("1 / delay for the edge, as the text has it", {
                "edge": lambda delay: 1 / delay if delay else 2.0}),
            Slip("2 tau for 2 tau + 1 under the sine", {
                "edge": lambda delay: 2 * math.sin(math.pi / (4 * delay)) if delay else 2.0}),
            Slip("pi / 2 over the delay: the limit of long delays", {
                "edge": lambda delay: math.pi / 2 / (delay + 0.5)}),
            Slip("degrees for radians", {
                "edge": lambda delay: 2 * math.sin(math.radians(math.pi / (2 * (2 * delay + 1))))}),
            Slip("the weight delay for 1 + delay", {"weighted": lambda delay, edge: delay * edge}),
        ),
    ),
    Sheet(
        "C.15",
        "Descent on lambda w^2 / 2 with noisy gradients: the noise of one example has the given deviation, and a "
        "batch of k averages k of them. Give for each k the learning rate of the linear and of the square-root "
        "rule, and the mean square of w in the long run under each.",
        (
            Given("rate", "learning rate at batch 1", "number", "", (0.02, 0.004, 0.005, 0.008, 0.012)),
            Given("curvature", "lambda", "number", "", (1, 0.5, 0.8, 1.25, 1.5)),
            Given("noise", "deviation of the gradient of one example", "number", "", (1, 0.5, 2, 3)),
        ),
        (Input("batch", "k, batch over that of the learning rate given", "count", "", (
            (1, 4, 16, 64), (1, 2, 8, 32, 80), (1, 3, 9, 27, 72)), ("k", "batch", "batch ratio")),),
        (
            Answer("linear_rate", "learning rate of the linear rule", "number", "",
                   lambda rate, batch: float(rule("linear")(rate, batch)), ("linear rate", "lr linear")),
            Answer("root_rate", "learning rate of the square-root rule", "number", "",
                   lambda rate, batch: float(rule("square-root")(rate, batch)), ("root rate", "sqrt rate", "lr sqrt")),
            Answer("linear_square", "mean square of w under the linear rule", "number", "",
                   lambda linear_rate, curvature, noise, batch: _variance(linear_rate, curvature, noise, batch),
                   ("linear square", "linear variance", "variance linear", "var linear")),
            Answer("root_square", "mean square of w under the square-root rule", "number", "",
                   lambda root_rate, curvature, noise, batch: _variance(root_rate, curvature, noise, batch),
                   ("root square", "sqrt variance", "root variance", "variance sqrt", "var sqrt")),
        ),
        (
            Slip("the noise of one example for that of a batch", {
                "linear_square": lambda linear_rate, curvature, noise: _variance(linear_rate, curvature, noise, 1),
                "root_square": lambda root_rate, curvature, noise: _variance(root_rate, curvature, noise, 1)}),
            Slip("a s^2 / (2 B lambda): the step taken for small", {
                "linear_square": lambda linear_rate, curvature, noise, batch: linear_rate * noise**2
                / batch / (2 * curvature),
                "root_square": lambda root_rate, curvature, noise, batch: root_rate * noise**2
                / batch / (2 * curvature)}),
            Slip("1 - a lambda for 2 - a lambda", {
                "linear_square": lambda linear_rate, curvature, noise, batch: linear_rate * noise**2
                / (batch * curvature * (1 - linear_rate * curvature)),
                "root_square": lambda root_rate, curvature, noise, batch: root_rate * noise**2
                / (batch * curvature * (1 - root_rate * curvature))}),
            Slip("the deviation of the noise not squared", {
                "linear_square": lambda linear_rate, curvature, noise, batch: _variance(
                    linear_rate, curvature, math.sqrt(noise), batch),
                "root_square": lambda root_rate, curvature, noise, batch: _variance(
                    root_rate, curvature, math.sqrt(noise), batch)}),
            Slip("the rate of batch 1 for every batch", {
                "linear_rate": lambda rate: rate, "root_rate": lambda rate: rate}),
            Slip("the linear rule for the square-root rule", {"root_rate": lambda linear_rate: linear_rate}),
        ),
    ),
    Sheet(
        "C.16",
        "Three ways to a target: synchronous, with an exchange after every step; without waiting, where a step "
        "takes the mean time of a worker and half an exchange but more steps are needed; and local with K steps "
        "between exchanges and 1 + c (K - 1) times the steps. The slowest worker of a synchronous or local step "
        "takes longer than the mean by the given factor. Give for each time of an exchange the time of a run in "
        "each way.",
        (
            Given("steps", "synchronous steps to the target", "count", "", (1000, 400, 600, 2000)),
            Given("mean", "mean computing of a step", "time", "ms", (50, 30, 80, 120)),
            Given("slowest", "slowest worker over the mean", "number", "", (1.5, 1.3, 1.8, 2.2)),
            Given("more", "steps without waiting over synchronous ones", "number", "", (1.4, 1.2, 1.6, 1.7)),
            Given("period", "K", "count", "", (4, 3, 6, 8)),
            Given("penalty", "c", "share", "", (0.05, 0.02, 0.04, 0.08)),
        ),
        (Input("exchange", "time of an exchange", "time", "ms", ((1, 10, 50, 100, 400), (2, 20, 70, 150, 300)),
               ("exchange", "comm", "communication")),),
        (
            Answer("synchronous", "synchronous run", "time", "s",
                   lambda steps, mean, slowest, exchange: run_s(steps, 1, mean * slowest, exchange),
                   ("synchronous", "sync")),
            Answer("asynchronous", "run without waiting", "time", "s",
                   lambda steps, mean, more, exchange: run_s(steps * more, 2, mean, exchange),
                   ("asynchronous", "async", "without waiting")),
            Answer("local", "run with local steps", "time", "s",
                   lambda steps, mean, slowest, exchange, period, penalty: run_s(
                       steps * (1 + penalty * (period - 1)), period, mean * slowest, exchange),
                   ("local", "local sgd")),
        ),
        (
            Slip("the slowest worker forgotten: the mean of all for the maximum", {
                "synchronous": lambda steps, mean, exchange: run_s(steps, 1, mean, exchange),
                "local": lambda steps, mean, exchange, period, penalty: run_s(
                    steps * (1 + penalty * (period - 1)), period, mean, exchange)}),
            Slip("the larger number of steps without waiting forgotten", {
                "asynchronous": lambda steps, mean, exchange: run_s(steps, 2, mean, exchange)}),
            Slip("waiting for the slowest also where nobody waits", {
                "asynchronous": lambda steps, mean, slowest, more, exchange: run_s(
                    steps * more, 2, mean * slowest, exchange)}),
            Slip("K for K - 1 in the penalty", {
                "local": lambda steps, mean, slowest, exchange, period, penalty: run_s(
                    steps * (1 + penalty * period), period, mean * slowest, exchange)}),
            Slip("the penalty forgotten", {
                "local": lambda steps, mean, slowest, exchange, period: run_s(
                    steps, period, mean * slowest, exchange)}),
        ),
    ),
)  # fmt: skip
