"""Local SGD on the clock: workers whose data, gradients and times differ, until the loss is low enough.

worker i of n    f_i(x) = 1/2 sum_j h_j (1 + spread u_i) (x_j - apart u_i)^2,   u_i from -1 to 1 in equal steps
h                from 1 / condition to 1 in equal ratios
round            every worker takes `period` steps on noisy gradients, then all are averaged
seconds          the largest sum of the workers' times, plus the exchange
"""

from __future__ import annotations

import numpy as np

from lockstep.base.types.arrays import Array
from lockstep.check.evidence.claims.deciders import decides
from lockstep.learn.lab.descent.updates import worker_times_s
from lockstep.learn.lab.descent.workers import LocalMethod, run_rounds
from lockstep.learn.lab.objectives import WorkerQuadratics, spectrum
from lockstep.learn.lab.statistics import SignNoise, streams
from lockstep.simulate.play import parse_law


def _problem(workers: int, axes: int, condition: float, spread: float, apart: float) -> WorkerQuadratics:
    unlike = np.linspace(-1, 1, workers)[:, None]
    curvatures = (1 + spread * unlike) * spectrum("logarithmic", axes, condition)
    return WorkerQuadratics(curvatures, apart * np.broadcast_to(unlike, curvatures.shape))


@decides("simulated")
def local_run(
    period: int,
    step_size: float,
    what: str,
    runs: int,
    seed: int,
    *,
    workers: int,
    axes: int,
    condition: float,
    spread: float,
    apart: float,
    noise: float,
    target: float,
    most: int,
    law: str,
    exchange_s: float,
) -> Array:
    """Steps or seconds (`s`) of `runs` runs from x = 1 until the loss over the least first is a share `target` of that.

    Runs that need more than `most` steps count as endless. `law`: of a worker's time for a step.
    """
    problem, rounds = _problem(workers, axes, condition, spread, apart), -(-most // period)
    for_noise, for_times = streams(seed, 2)
    drawn = SignNoise.of(noise, (workers, runs, axes), for_noise)
    h, b = problem.curvatures[:, None, :], problem.optima[:, None, :]
    path = run_rounds(
        lambda x: h * (x - b), workers, np.ones((runs, axes)), LocalMethod(step_size), [period] * rounds,
        noise=drawn.draw,
    )  # fmt: skip
    gaps = problem.loss(path) - problem.lowest
    reached = gaps <= target * gaps[0]
    first = np.where(reached.any(axis=0), reached.argmax(axis=0), rounds)
    if what == "steps":
        return np.where(reached.any(axis=0), first * period, np.inf)
    times_s = worker_times_s(parse_law(law), np.ones(workers), runs * rounds * period, for_times)
    rounds_s = times_s.reshape(runs, rounds, period, workers).sum(axis=2).max(axis=2) + exchange_s
    ends_s = np.cumsum(rounds_s, axis=1)[np.arange(runs), first - 1]
    return np.where(reached.any(axis=0), ends_s, np.inf)
