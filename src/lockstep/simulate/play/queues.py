"""Dynamic waiting on SimPy, of the extra `queues`: first-come-first-served servers, and work that restarts after
failures.

Formulas these converge to (tests hold them to it):

    M/M/1   mean time in system   1 / (mu - lambda)
    M/G/1   mean wait             lambda E[S^2] / (2 (1 - rho)),  rho = lambda E[S]      (Pollaczek-Khinchine)
    work W, failures every M on average (exponential), restart R: E[T] = M exp(R / M) (exp(W / M) - 1)

Source: L. Kleinrock, Queueing Systems vol. 1, 1975, sections 3.2 and 5.6; J. T. Daly, Future Generation Computer
Systems 22, 2006, section 2 (one segment).
"""

from __future__ import annotations

import math
from collections.abc import Generator
from importlib import import_module
from typing import Any

import numpy as np

from lockstep.base.errors import BadInput, not_installed
from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Array
from lockstep.simulate.play.law import Law
from lockstep.simulate.play.sample import Sample

Process = Generator[Any, Any, None]


@dataclass(frozen=True, eq=False, slots=True)
class QueueRun:
    """Jobs through a queue, in order of arrival."""

    arrival_s: Array
    begin_s: Array
    end_s: Array

    @property
    def wait(self) -> Sample:
        """Time each job waited."""
        return Sample(self.begin_s - self.arrival_s)

    @property
    def time_in_system(self) -> Sample:
        """Time from arrival to end of each job."""
        return Sample(self.end_s - self.arrival_s)


def queue(between_arrivals: Law, service: Law, jobs: int, *, servers: int = 1, seed: int = 0) -> QueueRun:
    """`jobs` jobs arrive one after another at `servers` equal servers with one first-come-first-served line.

    A parameter server, a shared file system, a pool of data loaders. Times of one queue are correlated: their plain
    confidence interval is too narrow; use several seeds.
    """
    simpy = _simpy()
    _check(jobs=jobs, servers=servers)
    arriving, serving = _generators(seed, 2)
    arrival_s = np.cumsum(np.maximum(between_arrivals.draw(arriving, jobs), 0.0))
    service_s = np.maximum(service.draw(serving, jobs), 0.0)
    begin_s, end_s = np.zeros(jobs), np.zeros(jobs)
    environment = simpy.Environment()
    pool = simpy.Resource(environment, capacity=servers)

    def job(number: int) -> Process:
        with pool.request() as turn:
            yield turn
            begin_s[number] = environment.now
            yield environment.timeout(service_s[number])
            end_s[number] = environment.now

    def source() -> Process:
        for number in range(jobs):
            yield environment.timeout(arrival_s[number] - environment.now)
            environment.process(job(number))

    environment.process(source())
    environment.run()
    return QueueRun(arrival_s, begin_s, end_s)


@dataclass(frozen=True, eq=False, slots=True)
class Rounds:
    """Rounds of workers that share a server; all of shape (rounds, workers)."""

    left_s: Array
    """When the worker began its round: it knows what was served by then."""
    asked_s: Array
    begin_s: Array
    end_s: Array


def circulate(
    work_s: Array, service_s: Array, *, servers: int = 1, least_s: float = 0.0, bound: int | None = None
) -> Rounds:
    """Workers that compute, wait for a server, are served and start over, each with its own times.

    `work_s`, `service_s`: (rounds, workers). `least_s`: shortest time from asking to being done, which the worker's own
    link takes. `bound`: most rounds by which a worker may be ahead of the slowest one; None for no bound.
    """
    simpy = _simpy()
    rounds, workers = work_s.shape
    _check(workers=workers, rounds=rounds, servers=servers)
    found = Rounds(*(np.zeros(work_s.shape) for _ in range(4)))
    environment = simpy.Environment()
    pool = simpy.Resource(environment, capacity=servers)
    clocks, behind = [environment.event() for _ in range(rounds)], [workers] * rounds

    def worker(number: int) -> Process:
        for turn in range(rounds):
            if bound is not None and turn > bound:
                yield clocks[turn - 1 - bound]
            found.left_s[turn, number] = environment.now
            yield environment.timeout(work_s[turn, number])
            found.asked_s[turn, number] = asked = environment.now
            with pool.request() as its_turn:
                yield its_turn
                found.begin_s[turn, number] = environment.now
                yield environment.timeout(service_s[turn, number])
            if environment.now < asked + least_s:
                yield environment.timeout(asked + least_s - environment.now)
            found.end_s[turn, number] = environment.now
            behind[turn] -= 1
            if not behind[turn]:
                clocks[turn].succeed()

    for number in range(workers):
        environment.process(worker(number))
    environment.run()
    return found


def closed_loop(work: Law, service: Law, workers: int, rounds: int, *, servers: int = 1, seed: int = 0) -> QueueRun:
    """`circulate` with times drawn from laws: asynchronous training on a parameter server.

    Jobs are listed in the order they ask for service; each worker makes `rounds` of them.
    """
    _check(workers=workers, rounds=rounds)
    generators = _generators(seed, 2 * workers)
    work_s = np.array([np.maximum(work.draw(one, rounds), 0.0) for one in generators[::2]]).T
    service_s = np.array([np.maximum(service.draw(one, rounds), 0.0) for one in generators[1::2]]).T
    found = circulate(work_s, service_s, servers=servers)
    columns = np.stack([found.asked_s.ravel(), found.begin_s.ravel(), found.end_s.ravel()])
    return QueueRun(*columns[:, np.lexsort(columns[::-1])])


def restarting(
    work_s: float, between_failures: Law, restart_s: float, runs: int, *, segment_s: float = 0.0,
    segment_cost_s: float = 0.0, seed: int = 0,
) -> Sample:  # fmt: skip
    """Time to finish `work_s` of work that loses its current segment at every failure; `runs` independent runs.

    A segment is `segment_s` of work followed by `segment_cost_s` (a checkpoint); 0 means one segment without
    checkpoint. Failures strike working, checkpointing and restarting alike.
    """
    simpy = _simpy()
    _check(runs=runs)
    if not (work_s > 0 and restart_s >= 0 and segment_s >= 0 and segment_cost_s >= 0):
        raise BadInput("work_s must be positive, restart_s, segment_s and segment_cost_s not negative")
    total_s = np.zeros(runs)
    for number, generator in enumerate(_generators(seed, runs)):
        environment = simpy.Environment()
        job = environment.process(_job(environment, work_s, restart_s, segment_s, segment_cost_s))
        environment.process(_failures(environment, job, between_failures, generator))
        environment.run(until=job)
        total_s[number] = environment.now
    return Sample(total_s)


def _job(environment: Any, work_s: float, restart_s: float, segment_s: float, segment_cost_s: float) -> Process:
    """Works segment by segment; an interrupt loses the segment and costs restarts until one succeeds."""
    simpy = _simpy()
    # A hair below the quotient, so that 0.3 / 0.1 is three segments and not four.
    segments = max(1, math.ceil(work_s / segment_s * (1 - 1e-12))) if segment_s else 1
    last_s = work_s - (segments - 1) * segment_s
    pause_s = 0.0
    while segments:
        part_s = segment_s + segment_cost_s if segments > 1 else last_s
        try:
            yield environment.timeout(pause_s + part_s)
            segments, pause_s = segments - 1, 0.0
        except simpy.Interrupt:
            pause_s = restart_s


def _failures(environment: Any, job: Any, between_failures: Law, generator: np.random.Generator) -> Process:
    while True:
        yield environment.timeout(max(float(between_failures.draw(generator, 1)[0]), 0.0))
        if not job.is_alive:
            return
        job.interrupt()


def _simpy() -> Any:
    try:
        return import_module("simpy")
    except ImportError:
        raise not_installed("queues need simpy", "queues", "simpy") from None


def _generators(seed: int, number: int) -> list[np.random.Generator]:
    return [np.random.Generator(np.random.PCG64(child)) for child in np.random.SeedSequence(seed).spawn(number)]


def _check(**counts: int) -> None:
    for name, count in counts.items():
        if count < 1:
            raise BadInput(f"{name} must be at least 1, got {count}")
