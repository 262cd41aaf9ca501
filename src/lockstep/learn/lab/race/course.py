"""What is trained where (`Course`), how one way of training it went (`Leg`), and the way that averages every K steps.

`local` is local SGD: every K steps the slowest sum of K times, then an all-reduce of S; synchronous for K = 1.
    seconds of a round = max over workers of (x_1 + ... + x_K) + all-reduce of S,   2 (n - 1) S / n bytes sent
"""

from __future__ import annotations

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Array
from lockstep.base.types.plain import Json
from lockstep.learn.lab.descent.workers import LocalMethod, run_rounds
from lockstep.learn.lab.objectives import Quadratic
from lockstep.learn.lab.statistics import SignNoise
from lockstep.simulate.collectives import PlainLink, best_time_s
from lockstep.simulate.play import Sample


@dataclass(frozen=True, slots=True, eq=False)
class Course:
    """The problem that counts steps, and what a step costs."""

    objective: Quadratic
    start: Array
    """(trials, dimension)."""
    noise_std: float
    step_size: float
    """Of a synchronous step."""
    times_s: Array
    """Of every step of every worker, (trials, steps, workers)."""
    link: PlainLink
    size_B: float
    """Of a gradient, and of the parameters."""
    servers: int
    """Machines of the parameter server, each with an equal part of the parameters and such a link."""
    compress_Bps: float
    """Gradient bytes that a worker compresses and restores per second."""
    seed: int

    @property
    def trials(self) -> int:
        """Independent runs, each with its own times and noise."""
        return int(self.times_s.shape[0])

    @property
    def steps(self) -> int:
        """Steps of every worker."""
        return int(self.times_s.shape[1])

    @property
    def workers(self) -> int:
        """Number of workers."""
        return int(self.times_s.shape[2])

    def noise(self, workers: int, number: int) -> SignNoise:
        """Noise of `workers` gradients in every trial."""
        shape = (workers, self.trials, self.objective.dimension)
        return SignNoise.of(self.noise_std, shape, np.random.default_rng([self.seed, number]))

    def all_reduce_s(self) -> float:
        """Seconds of the fastest all-reduce of a gradient."""
        return float(best_time_s("all-reduce", self.workers, self.size_B, self.link))


@dataclass(frozen=True, slots=True, eq=False)
class Leg:
    """A way's losses, and what they had cost by then: records of all trials."""

    name: str
    saves: str
    """Why it is quick, where it is: a clause about it."""
    gradients: Array
    """Of one worker, computed by each record."""
    time_s: Array
    """(records, trials)."""
    sent_B: Array
    """By one worker, by each record."""
    losses: Array
    """(records, trials)."""
    compute_s: float
    """Seconds that one worker computes in the whole run, compressing included."""
    exchange_s: float
    """Seconds of one worker's run in which its link is busy for it."""

    @property
    def computing_frac(self) -> float:
        """Share of the time in which a worker computes."""
        return self.compute_s / self._whole_s

    @property
    def sending_frac(self) -> float:
        """Share of the time in which its messages travel."""
        return self.exchange_s / self._whole_s

    @property
    def waiting_frac(self) -> float:
        """The rest: it waits for other workers, or for its turn at the server."""
        return max(0.0, 1 - self.computing_frac - self.sending_frac)

    @property
    def _whole_s(self) -> float:
        return float(self.time_s[-1].mean())

    def until(self, target: float) -> Arrival:
        """What it cost, in every trial, until the loss first was at most `target`."""
        reached = self.losses <= target
        arrived = np.any(reached, axis=0)
        first = np.argmax(reached, axis=0)[arrived]
        return Arrival(
            self, len(arrived), self.gradients[first], self.time_s[first, np.flatnonzero(arrived)], self.sent_B[first]
        )


@dataclass(frozen=True, slots=True, eq=False)
class Arrival:
    """Gradients of one worker, seconds and bytes of the trials that reached the target."""

    leg: Leg
    trials: int
    gradients: Array
    time_s: Array
    sent_B: Array

    @property
    def complete(self) -> bool:
        """Whether every trial arrived; a mean over some of them would flatter."""
        return len(self.time_s) == self.trials

    def to_dict(self) -> Json:
        """A row: means with 95 % intervals over the trials, None where not all arrived; shares of the whole run."""
        row: Json = {"way": self.leg.name}
        for name in ("gradients", "time_s", "sent_B"):
            sample = Sample(getattr(self, name)) if self.complete else None
            row[name] = sample and sample.mean_s
            row[f"ci95_{name}"] = sample and list(sample.interval_s())
        return row | {"sending_frac": self.leg.sending_frac, "waiting_frac": self.leg.waiting_frac}


def from_zero(durations_s: Array) -> Array:
    """Ends of durations (trials, records) one after another, with the start in front, as (records + 1, trials)."""
    return np.vstack([np.zeros(len(durations_s)), np.cumsum(durations_s, axis=1).T])


def local(course: Course, period: int) -> Leg:
    """Local SGD with K = `period`; 1 is synchronous descent.

    All periods draw the same noise: on a quadratic the averages are then points of the synchronous run.
    """
    rounds = course.steps // period
    path = run_rounds(
        course.objective.gradient, course.workers, course.start, LocalMethod(course.step_size), [period] * rounds,
        noise=course.noise(course.workers, 1).draw,
    )  # fmt: skip
    used_s = course.times_s[:, : rounds * period]
    sums_s = used_s.reshape(course.trials, rounds, period, -1).sum(axis=2)
    exchange_s = course.all_reduce_s()
    count = np.arange(rounds + 1)
    return Leg(
        name="synchronous" if period == 1 else f"local:{period}",
        saves="every step uses all gradients" if period == 1 else f"it communicates only once in {period} steps",
        gradients=count * float(period),
        time_s=from_zero(sums_s.max(axis=2) + exchange_s),
        sent_B=count * (2 * (course.workers - 1) / course.workers * course.size_B),
        losses=course.objective.loss(path),
        compute_s=float(used_s.mean(axis=(0, 2)).sum()),
        exchange_s=rounds * exchange_s,
    )
