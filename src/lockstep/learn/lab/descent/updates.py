"""Who updates the shared parameters when, and on which version: the schedules of asynchronous training.

    updates in order of their end; read of an update = number of updates that had ended when its worker read
    delay = updates between the read and the write = place in the order - read
    asynchronous      a worker reads as soon as it has written
    bounded:s         a worker reads when the slowest one is at most s steps behind (clock gap, stale synchronous
                      parallel); the delay in updates may be larger than s
    cut off at c      the server refuses gradients whose delay is above c (age); the worker reads again
    served            either of the first two at a server that takes time for every gradient, first come first served
Elsewhere a server that applies an update takes no time; times of workers are draws of a law, communication included.

Source: stale synchronous parallel: Q. Ho et al., NIPS 2013; gradients dropped for their age: A. Odena, 2016.
"""

from __future__ import annotations

import heapq

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Array
from lockstep.simulate.failures.stragglers.bounded import finish_s
from lockstep.simulate.play import Law, circulate


@dataclass(frozen=True, slots=True, eq=False)
class Updates:
    """Updates in the order in which the server applies them: `end_s`, `worker`, and `read`, all of one length."""

    end_s: Array
    worker: Array
    read: Array
    computed: int
    """Gradients computed by then, refused ones included."""

    def __len__(self) -> int:
        return len(self.end_s)

    @property
    def delay(self) -> Array:
        """Updates by others between the read and the write of every update."""
        found: Array = np.arange(len(self.read)) - self.read
        return found

    @property
    def per_s(self) -> float:
        """Updates per second."""
        return len(self) / float(self.end_s[-1])

    def settled(self) -> Updates:
        """The later half, without the start at which nobody is late; reads keep their place in the whole."""
        half = len(self) // 2
        return Updates(self.end_s[half:] - self.end_s[half - 1], self.worker[half:], self.read[half:] - half, 0)

    def mean_delay_of(self, worker: int) -> float:
        """Mean delay of one worker's updates."""
        return float(self.delay[self.worker == worker].mean())


def worker_times_s(law: Law, slowdown: Array, steps: int, generator: np.random.Generator) -> Array:
    """Times of every step of every worker, (steps, workers); worker i is slower by `slowdown[i]`, times are not < 0."""
    times_s: Array = np.maximum(law.draw(generator, steps * len(slowdown)), 0.0).reshape(steps, -1) * slowdown
    return times_s


def asynchronous(times_s: Array, bound: int | None = None) -> Updates:
    """The updates of workers that take `times_s` (steps, workers), all up to the end of the first to run out of steps.

    `bound`: most steps by which a worker may be ahead of the slowest; None for no bound.
    """
    ends_s = np.cumsum(times_s, axis=0) if bound is None else finish_s(times_s, bound)
    # Who waits reads what has ended by then; the margin is far above rounding and far below a step.
    return _in_order(ends_s, None if bound is None else ends_s - (1 - 1e-9) * times_s)


def served(
    times_s: Array, bound: int | None = None, *, service_s: float, push_s: float = 0.0, pull_s: float = 0.0
) -> Updates:
    """`asynchronous` at a server that takes `service_s` for a gradient, one after another in the order they come.

    `push_s`: least time from a gradient to its update, that of the worker's link; `pull_s`: from the read to computing.
    """
    found = circulate(times_s + pull_s, np.full(times_s.shape, service_s), least_s=push_s, bound=bound)
    return _in_order(found.end_s, None if bound is None else found.left_s)


def _in_order(ends_s: Array, begin_s: Array | None) -> Updates:
    """Updates by their end, (steps, workers); a worker reads as it writes, or at `begin_s` where it waits."""
    order = np.argsort(ends_s.ravel(), kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    own = np.vstack([np.zeros(ends_s.shape[1], dtype=int), place.reshape(ends_s.shape)[:-1] + 1])
    if begin_s is not None:
        own = np.maximum(own, np.searchsorted(ends_s.ravel()[order], begin_s, side="right"))
    inside = order[ends_s.ravel()[order] <= ends_s[-1].min()]
    return Updates(ends_s.ravel()[inside], inside % ends_s.shape[1], own.ravel()[inside], len(inside))


def cut_off(times_s: Array, oldest: int) -> Updates:
    """Updates of a server that refuses gradients with a delay above `oldest`; `times_s` as in `asynchronous`."""
    steps, workers = times_s.shape
    waiting = [(float(times_s[0, i]), i) for i in range(workers)]
    heapq.heapify(waiting)
    versions, taken = [0] * workers, [1] * workers
    end_s: list[float] = []
    worker: list[int] = []
    read: list[int] = []
    computed = 0
    while True:
        now_s, i = heapq.heappop(waiting)
        computed += 1
        if len(end_s) - versions[i] <= oldest:
            end_s.append(now_s)
            worker.append(i)
            read.append(versions[i])
        versions[i] = len(end_s)
        if taken[i] == steps:
            return Updates(np.array(end_s), np.array(worker), np.array(read), computed)
        heapq.heappush(waiting, (now_s + float(times_s[taken[i], i]), i))
        taken[i] += 1
