"""Ways to train one problem on one cluster, from steps to seconds and bytes.

Each way gives a loss after every update; the same draws of the workers' times and the same link price give every update
the second at which it is done and the bytes that a worker has sent by then. So the ways compare on one clock:

    synchronous    every step: the slowest worker, then an all-reduce of S
    local:K        every K steps: the slowest sum of K times, then an all-reduce of S
    compressed     every step: the slowest worker, then an all-gather of the payloads of all
    asynchronous, bounded:s    a worker's time, then a push and a pull of S at a server in as many shards as workers
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lockstep.collectives import PlainLink, best_time_s
from lockstep.converge.descent.follow import follow
from lockstep.converge.descent.local_rounds import LocalMethod, run_rounds
from lockstep.converge.descent.updates import asynchronous
from lockstep.converge.objectives import Quadratic
from lockstep.converge.statistics.noise import SignNoise
from lockstep.methods.compression import ErrorFeedback, TopK, exchange

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Course:
    """What is trained where: the problem that counts steps, and what a step costs."""

    objective: Quadratic
    start: Array
    noise_std: float
    step_size: float
    """Of a synchronous step."""
    trials: int
    times_s: Array
    """Of every step of every worker, (steps, workers)."""
    link: PlainLink
    size_B: float
    """Of a gradient, and of the parameters."""
    seed: int

    @property
    def workers(self) -> int:
        """Number of workers."""
        return int(self.times_s.shape[1])

    def noise(self, workers: int, number: int) -> SignNoise:
        """Noise of `workers` gradients in every trial."""
        shape = (workers, self.trials, self.objective.dimension)
        return SignNoise.of(self.noise_std, shape, np.random.default_rng([self.seed, number]))

    def all_reduce_s(self) -> float:
        """Seconds of the fastest all-reduce of a gradient."""
        return float(best_time_s("all-reduce", self.workers, self.size_B, self.link))


@dataclass(frozen=True, slots=True, eq=False)
class Leg:
    """A way's losses at the times at which they are reached; all of one length."""

    name: str
    gradients: Array
    """Of one worker, computed by then."""
    time_s: Array
    sent_B: Array
    """By one worker."""
    losses: Array
    """(updates, trials)."""
    compute_s: float
    """Of the whole run, without waiting or sending."""
    exchange_s: float

    def until(self, target: float) -> tuple[float, float, float] | None:
        """(gradients of a worker, seconds, bytes) when the mean loss first is at the target; None when it never is."""
        reached = np.flatnonzero(self.losses.mean(axis=1) <= target)
        if not reached.size:
            return None
        first = int(reached[0])
        return float(self.gradients[first]), float(self.time_s[first]), float(self.sent_B[first])


def local(course: Course, period: int) -> Leg:
    """Local SGD with K = `period`; 1 is synchronous descent."""
    rounds = len(course.times_s) // period
    path = run_rounds(
        course.objective.gradient, course.workers, course.start, LocalMethod(course.step_size), [period] * rounds,
        noise=course.noise(course.workers, period).draw,
    )  # fmt: skip
    sums_s = course.times_s[: rounds * period].reshape(rounds, period, -1).sum(axis=1)
    exchange_s = course.all_reduce_s()
    count = np.arange(rounds + 1)
    sent_B = 2 * (course.workers - 1) / course.workers * course.size_B
    name = "synchronous" if period == 1 else f"local:{period}"
    return Leg(
        name, count * float(period), _from_zero(sums_s.max(axis=1) + exchange_s),
        count * sent_B, course.objective.loss(path), float(sums_s.mean(axis=1).sum()), rounds * exchange_s,
    )  # fmt: skip


def served(course: Course, bound: int | None) -> Leg:
    """Asynchronous updates of a sharded parameter server, with a clock gap of `bound` or none."""
    trip_s = 2 * (course.link.latency_s + course.size_B / course.link.bandwidth_Bps)
    updates = asynchronous(course.times_s + trip_s, bound)
    noise = course.noise(1, 10_000 + (-1 if bound is None else bound))
    made = follow(
        updates.read, course.objective.gradient, course.objective.loss, course.start,
        course.step_size / course.workers, noise=lambda: noise.draw()[0], record_every=course.workers,
    )  # fmt: skip
    time_s = np.concatenate([[0.0], updates.end_s])[made.steps]
    gradients = made.steps / course.workers
    steps = len(updates) / course.workers
    name = "asynchronous" if bound is None else f"bounded:{bound}"
    return Leg(
        name, gradients, time_s, gradients * course.size_B, made.losses,
        float(course.times_s.mean()) * steps, trip_s * steps,
    )  # fmt: skip


def compressed(course: Course, keep_frac: float) -> Leg:
    """Synchronous descent that sends the largest entries of every gradient, with error feedback."""
    made = ErrorFeedback(TopK(keep_frac))
    payload_B = float(made.size_B(round(course.size_B / 4)) or 0.0)
    exchange_s = float(best_time_s("all-gather", course.workers, payload_B * course.workers, course.link))
    steps = len(course.times_s)
    losses = np.empty((steps + 1, course.trials))
    for trial in range(course.trials):
        losses[:, trial] = _compressed_losses(course, made, trial)
    count = np.arange(steps + 1)
    return Leg(
        f"top {keep_frac:.2g}, feedback", count.astype(float), _from_zero(course.times_s.max(axis=1) + exchange_s),
        count * (course.workers - 1) * payload_B, losses, float(course.times_s.mean(axis=1).sum()), steps * exchange_s,
    )  # fmt: skip


def _compressed_losses(course: Course, made: ErrorFeedback, trial: int) -> Array:
    """Losses of one trial."""
    generator = np.random.default_rng([course.seed, 20_000, trial])
    shape = (course.workers, course.objective.dimension)
    noise = SignNoise.of(course.noise_std, shape, generator)
    point = course.start[trial]
    states: Any = [made.start(point) for _ in range(course.workers)]
    losses = [float(course.objective.loss(point))]
    for _ in range(len(course.times_s)):
        gradients = course.objective.gradient(point) + noise.draw()
        found = exchange(made, list(gradients), states, [generator] * course.workers)
        states, point = found.states, point - course.step_size * found.mean
        losses.append(float(course.objective.loss(point)))
    return np.array(losses)


def _from_zero(durations_s: Array) -> Array:
    """Ends of durations one after another, with the start in front."""
    return np.concatenate([[0.0], np.cumsum(durations_s)])
