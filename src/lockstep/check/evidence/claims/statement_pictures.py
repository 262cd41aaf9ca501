"""Pictures of statements and proof problems: the quantity that is claimed, its true law, and what was run."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from lockstep.check.evidence.claims.picture import Line, Picture

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockstep.learn.methods.compression import Compressor

UNIT = 2.0**-53
"""Of rounding in 64 bits."""


def delay_room() -> Picture:
    """Longest stable delay over the step; runs with delays of 1.5 and of 1.6 over the step."""
    from lockstep.learn.lab.descent.delayed import factor
    from lockstep.learn.lab.laws import largest_stable_step

    delays, steps = np.arange(1, 201), (0.16, 0.08, 0.04, 0.02, 0.01)
    runs = [(step, float(round(room / step))) for room in (1.5, 1.6) for step in steps]
    shrinks = [factor(step, int(delay)) < 1 for step, delay in runs]

    def drawn(label: str, shrinking: bool, kind: str) -> Line:
        x, y = zip(*(run for run, does in zip(runs, shrinks, strict=True) if does is shrinking), strict=True)
        return Line(label, list(x), list(y), kind)

    return Picture(
        "How long may a delay be at a small step? Descent on a quadratic",
        "step x curvature", "delay, updates",
        (
            Line("claimed: in proportion to 1 / step", math.pi / 2 / delays, delays.astype(float), "claimed"),
            Line("true: step x curvature = 2 sin(pi / (2 (2 delay + 1)))",
                 [largest_stable_step(int(delay)) for delay in delays], delays.astype(float), "true"),
            drawn("simulated, shrinks", True, "found"), drawn("simulated, grows", False, "wrong"),
        ),
        log_x=True, log_y=True,
    )  # fmt: skip


def local_growth() -> Picture:
    """Factor per step of local SGD over K, and of descent on gradients as old as local SGD's are said to be."""
    from lockstep.check.evidence.claims.deciders.steps import local_growth as growth
    from lockstep.learn.lab.laws import rate

    workers, step, periods = 8, 0.217, [1, 2, 4, 8, 16]
    x, rounds = list(map(float, periods)), 20
    return Picture(
        "Does local SGD grow like SGD on old gradients? 8 workers, step x curvature 0.217",
        "local steps K", "factor on the distance per step",
        (
            Line("claimed: as with a delay of 7 K", x, [rate(step, (workers - 1) * k) for k in periods], "claimed"),
            Line("true: 1 - step x curvature", x, [1 - step] * len(x), "true"),
            Line("local SGD, simulated", x,
                 [10 ** (growth(workers, k, step, rounds) / (rounds * k)) for k in periods], "found"),
        ),
        log_x=True,
    )  # fmt: skip


def safe_entries() -> Picture:
    """Largest entry that ranks can sum in fp16, with the clipping that is claimed to be enough."""
    from lockstep.learn.lab import find_experiment
    from lockstep.learn.lab.experiments.precision.overflow import HALF

    found = next(one for one in find_experiment("overflow").answer({}).curves if not one.theory)
    ranks = np.geomspace(1, 64, 50)
    return Picture(
        "To what must entries be clipped so that their sum stays finite in fp16?",
        "ranks", "largest entry",
        (
            Line("claimed: below 65,504", ranks, np.full(len(ranks), HALF.largest), "claimed"),
            Line("true: 65,520 / ranks", ranks, HALF.overflows_from / ranks, "true"),
            Line("searched in runs of an all-reduce", found.x, found.y, "found"),
        ),
        log_x=True, log_y=True,
    )  # fmt: skip


def update_sizes() -> Picture:
    """Length of the update over the workers that share a batch, where gradients are averaged and where summed."""
    from lockstep.learn.lab.objectives import digits_perceptron

    network, workers = digits_perceptron(8), [2**power for power in range(7)]
    start, batch = network.start(0), np.random.default_rng(0).permutation(len(network.inputs))[:256]
    whole = float(np.linalg.norm(network.part(batch).gradient(start)))
    shards = [[network.part(shard).gradient(start) for shard in np.split(batch, n)] for n in workers]
    x = list(map(float, workers))
    return Picture(
        "Do more workers move further? Digits, a batch of 256 in equal shards",
        "workers", "length of the update over that of one worker",
        (
            Line("claimed: larger with the workers", x, x, "claimed"),
            Line("true: the same", x, [1.0] * len(x), "true"),
            Line("averaged, run", x, [float(np.linalg.norm(np.mean(one, axis=0))) / whole for one in shards], "found"),
            Line("summed, run", x, [float(np.linalg.norm(np.sum(one, axis=0))) / whole for one in shards], "wrong"),
        ),
        log_x=True, log_y=True,
    )  # fmt: skip


def accumulation() -> Picture:
    """Distance of accumulated and of single small steps from the large batch."""
    return _ways("Is accumulating 8 mini-batches one batch 8 times as large? Digits, SGD",
                 ("accumulation", "small steps one after another"))  # fmt: skip


def one_large_batch() -> Picture:
    """Distance of data-parallel runs from one device, as proven and where the conditions are broken."""
    return _ways("Do 8 data-parallel workers follow one device on the whole batch? Digits, SGD",
                 ("equal shards", "unequal shards, weighted", "unequal shards, unweighted",
                  "batch norm per shard"))  # fmt: skip


def _ways(title: str, names: Sequence[str]) -> Picture:
    """Largest difference of a parameter from the large batch, over the steps."""
    from lockstep.learn.lab import find_experiment

    curves = {one.label: one for one in find_experiment("data-parallel").answer({}).curves}
    *_, steps = (float(curves[name].x.max()) for name in names)
    rounding = Line("claimed: the same, up to rounding", [1.0, steps], [UNIT, UNIT], "claimed")
    lines = [Line(f"{name}, run", curves[name].x, curves[name].y, "curve") for name in names]
    return Picture(title, "step", "largest difference of a parameter", (rounding, *lines), log_y=True)


def stable_step() -> Picture:
    """Largest stable step over the delay at a condition number of 100, with the claimed one."""
    from lockstep.learn.lab import find_experiment
    from lockstep.learn.lab.laws import largest_stable_step

    delays, condition = np.arange(1, 21), 100
    found = next(
        one for one in find_experiment("delay-stability").answer({}).curves
        if one.label.startswith("momentum 0,") and not one.theory
    )  # fmt: skip
    later = found.x > 0
    return Picture(
        "Which step is stable with old gradients? Condition number L / mu = 100",
        "delay, updates", "step x L",
        (
            Line("claimed: 0.1 L / (mu (1 + delay))", delays, 0.1 * condition / (1 + delays), "claimed"),
            Line("true limit: 2 sin(pi / (2 (2 delay + 1)))", delays, [largest_stable_step(int(t)) for t in delays],
                 "true"),
            Line("limit, searched in runs", found.x[later], found.y[later], "found"),
        ),
        log_x=True, log_y=True,
    )  # fmt: skip


def quantised_step() -> tuple[Picture, ...]:
    """Loss after one step over its size, as it is and with an unbiased quantiser of relative error 3."""
    from lockstep.learn.methods.compression import NoCompression, RandomK

    return (
        _one_step("How far does a step lower |x|^2 / 2 from |x| = 1? No quantiser", NoCompression(), 0.0),
        _one_step("And with a quarter of the entries, at random?", RandomK(0.25), 3.0),
    )


def _one_step(title: str, made: Compressor, delta: float) -> Picture:
    """The claimed and the true inequality, and means of steps with that compressor of relative error delta."""
    from lockstep.learn.lab.statistics import mean_and_error

    start, draw = np.full(100, 0.1), np.random.default_rng(0)
    payloads = [made.decompress(made.compress(start, None, draw)[0]) for _ in range(400)]
    a, marks = np.linspace(0, 0.6, 50), np.linspace(0.06, 0.6, 10)
    losses = [mean_and_error(np.array([((start - step * one) ** 2).sum() / 2 for one in payloads])) for step in marks]
    return Picture(
        title, "step size a", "expected loss after the step",
        (
            Line(f"claimed: 1/2 - a + a^2 {delta:g} / 2", a, 0.5 - a + a**2 * delta / 2, "claimed"),
            Line(f"true: 1/2 - a + a^2 (1 + {delta:g}) / 2", a, 0.5 - a + a**2 * (1 + delta) / 2, "true"),
            # Steps that are all the same have an interval of nothing, and no bar.
            Line("run, mean of 400 with 95 % interval", marks, [mean for mean, _ in losses], "found",
                 half=[max(1.96 * spread, 1e-9) for _, spread in losses]),
        ),
    )  # fmt: skip


ALL = (
    delay_room, local_growth, safe_entries, update_sizes, accumulation, one_large_batch, stable_step, quantised_step,
)  # fmt: skip
"""Every one."""
