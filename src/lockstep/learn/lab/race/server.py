"""Asynchronous training on the clock: a parameter server with a queue, with a bound on the clock gap or without.

    service  s = alpha + c (beta + gamma),   c = S / servers       at every server, first come first served
    push     at least alpha + S beta, the worker's own link;   pull   alpha + S beta
    rate     at most 1 / s updates per second, and n / (x + push + pull) while nobody queues: they meet at
             n* = (x + push + pull) / s workers
x: seconds of a gradient. Workers send their parts in turn, each beginning at another server, so all servers see the
same queue and one stands for them. Answers leave no faster than pushes are served, so they never queue. Queue and
service are those of the program `parameter-server asynchronous`: n pushes at once end when it says they end.

Source: operational laws of a closed queue, J. Denning and P. Buzen, ACM Computing Surveys 1978; servers and their
ports as in `simulate/collectives/parameter_server/asynchronous.py`.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.records import dataclass
from lockstep.learn.lab.descent.delayed import follow
from lockstep.learn.lab.descent.updates import served as schedule
from lockstep.learn.lab.race.course import Course, Leg

FIRST_STREAM = 10_000
"""Number of the noise of the run without a bound; those with a bound s take the ones after it."""


@dataclass(frozen=True, slots=True)
class Server:
    """Seconds at a parameter server."""

    service_s: float
    push_s: float
    pull_s: float

    @classmethod
    def of(cls, course: Course) -> Server:
        """The server of a course."""
        link, part_B = course.link, course.size_B / course.servers
        wire_s = float(link.latency_s + course.size_B / link.bandwidth_Bps)
        service_s = float(link.latency_s + part_B * (1 / link.bandwidth_Bps + link.reduce_s_per_B))
        return cls(service_s, max(wire_s, service_s), wire_s)

    def saturating_workers(self, compute_s: float) -> float:
        """n*: workers from which on the server is the limit."""
        return (compute_s + self.push_s + self.pull_s) / self.service_s


def served(course: Course, bound: int | None) -> Leg:
    """Asynchronous updates, with a clock gap of at most `bound` steps or without a bound."""
    server = Server.of(course)
    runs = [
        schedule(times_s, bound, service_s=server.service_s, push_s=server.push_s, pull_s=server.pull_s)
        for times_s in course.times_s
    ]
    updates = min(len(run) for run in runs)
    noise = course.noise(1, FIRST_STREAM + (0 if bound is None else 1 + bound))
    made = follow(
        np.stack([run.read[:updates] for run in runs], axis=1), course.objective.gradient, course.objective.loss,
        course.start, course.step_size / course.workers, noise=lambda: noise.draw()[0], record_every=course.workers,
    )  # fmt: skip
    ends_s = np.stack([np.concatenate([[0.0], run.end_s[:updates]]) for run in runs], axis=1)
    gradients = made.steps / course.workers
    return Leg(
        name="asynchronous" if bound is None else f"bounded:{bound}",
        saves="no worker waits for the slowest" if bound is None else f"workers up to {bound} steps ahead do not wait",
        gradients=gradients,
        time_s=ends_s[made.steps],
        sent_B=gradients * course.size_B,
        losses=made.losses,
        compute_s=float(course.times_s.mean()) * float(gradients[-1]),
        exchange_s=(server.push_s + server.pull_s) * float(gradients[-1]),
    )
