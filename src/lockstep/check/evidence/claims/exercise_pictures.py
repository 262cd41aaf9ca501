"""Pictures that answer exercises: what was claimed next to what is priced, solved or simulated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lockstep.check.evidence.claims.picture import Line, Picture

if TYPE_CHECKING:
    from lockstep.simulate.program import Timeline


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


def bucket_timeline() -> Picture:
    """A backward pass with sixteen layers in a bucket, and the all-reduces beside it."""
    from lockstep.simulate.collectives import PlainLink
    from lockstep.simulate.parallel.data import Layers
    from lockstep.simulate.parallel.data.buckets import timeline
    from lockstep.simulate.parallel.group import Traffic, on_link

    traffic = Traffic(on_link(256, PlainLink(1e-5, 25e9)), "ring")
    made = timeline(Layers.equal(96, 0.48, 700e6, 0.0), traffic, [16] * 6)
    return Picture("What is left when the backward pass ends? 96 layers in buckets of 16, 256 workers", timeline=made)


NOISY: dict[str, Any] = {
    "workers": 8, "axes": 20, "condition": 20.0, "spread": 0.5, "apart": 0.5, "noise": 0.5, "target": 0.03, "most": 480,
    "law": "lognormal:mean=0.05,cv=0.2", "exchange_s": 0.1,
}  # fmt: skip
"""Runs of local SGD, as in the checks of the exercise: steps of 50 ms, an exchange of 100 ms."""
RUNS = 100
SIZES = 0.8 / 2 ** (np.arange(9) / 2)
"""Step sizes of which each K has its best."""


def noisy_runs() -> Picture:
    """Seconds of simulated runs, each K at its best step size, and the law with the penalty of their steps."""
    from lockstep.check.evidence.claims.deciders.rounds import local_run

    periods = np.array([1, 2, 3, 4, 6, 8, 12, 16, 32])
    tuned = [min(SIZES, key=lambda size: local_run(k, size, "s", 10, 1, **NOISY).mean()) for k in periods.tolist()]
    chosen = list(zip(periods.tolist(), tuned, strict=True))
    steps = np.array([local_run(k, size, "steps", RUNS, 0, **NOISY).mean() for k, size in chosen])
    times_s = np.array([local_run(k, size, "s", RUNS, 0, **NOISY) for k, size in chosen])
    more = periods - 1
    penalty = float(more @ (steps / steps[0] - 1) / (more @ more))
    fine = np.geomspace(1, 32, 100)
    seconds = 0.05 * steps[0] * (1 + penalty * (fine - 1)) * (1 + 2 / fine)
    return Picture(
        "How many local steps are fastest in runs? 8 workers, noisy gradients and times, r = 2",
        "local steps K", "time to the target, seconds",
        (
            Line(f"law of mean times, c = {penalty:.2g} fitted to the steps", fine, seconds, "true"),
            Line("claimed best: sqrt(r)", [2**0.5, 2**0.5], [0.0, float(seconds.max())], "claimed"),
            Line(f"simulated, mean of {RUNS} runs with 95 % interval", periods.astype(float), times_s.mean(axis=1),
                 "found", half=1.96 * times_s.std(axis=1, ddof=1) / RUNS**0.5),
        ),
        log_x=True,
    )  # fmt: skip


def kept_runs() -> Picture:
    """How far apart the weights of two runs are over the steps, by what was switched between them."""
    from lockstep.check.evidence.claims.deciders.kept_runs import CAUSE_OF, kept_run
    from lockstep.run.partings import apart

    lines = []
    for switch in CAUSE_OF:
        runs = [kept_run(switched, width=16, batch=16, parts=4, steps=16) for switched in ({}, {switch: 1})]
        steps, shares = zip(*((step, share) for step, share in apart("w", *runs) if share), strict=True)
        lines.append(Line(f"{switch} switched", list(map(float, steps)), list(shares), "joined"))
    title, y = (
        "Where do two runs part, and how far? 16 samples a step in 4 shares",
        "difference of weights over their size",
    )
    return Picture(title, "steps done", y, tuple(lines), log_y=True)


ALL = (
    worker_timeline, bucket_timeline, noisy_runs, kept_runs,
)  # fmt: skip
"""Every one."""
