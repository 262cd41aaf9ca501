"""Synchronous data-parallel SGD: every step, the gradients of all workers are averaged before anyone uses them.

    w <- w - eta (1/n) sum_k g_k(w)
w weights, eta learning rate, g_k mean gradient of worker k on its n-th part of the batch. Equal parts make the average
the gradient of the whole batch, so n workers do what one would.

Gradients travel in buckets, filled from the last layer backwards and reduced while the backward pass goes on. `Buckets`
hands them to a communication thread. The last parameters are first to get their gradient, so buckets are cut from the
end of the flat vector; a bucket starts when all its parameters are done and all buckets before it have been handed
over, so that every rank sends in one order.

Source: Li et al. 2020, "PyTorch Distributed" (VLDB 13), section 3.2 (buckets, overlap).
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from lockstep.base.records import dataclass
from lockstep.base.settings import setting
from lockstep.run.checkpoint import REPLICATED
from lockstep.run.train.method import Losses, Method, register
from lockstep.run.train.shard import Flat
from lockstep.run.train.worker import Worker
from lockstep.simulate.collectives import among_ranks

if TYPE_CHECKING:
    from torch import Tensor


class Buckets:
    """Calls `send(bucket)` for every bucket of gradients, in one other thread, while the caller computes."""

    def __init__(self, flat: Flat, bucket_B: float, send: Callable[[Tensor], None]) -> None:
        self.send = send
        edges = _edges(flat, bucket_B)
        self._tensors = [flat.gradients[start:stop] for stop, start in pairwise(edges)]
        self._bucket_of = [
            next(place for place, start in enumerate(edges[1:]) if start <= first) for first, _ in flat.ranges
        ]
        self._sizes = [self._bucket_of.count(place) for place in range(len(self._tensors))]
        self._missing = list(self._sizes)
        self._next = 0
        self._sent: list[Future[None]] = []
        self._thread = ThreadPoolExecutor(max_workers=1)
        self._hooks = [
            parameter.register_post_accumulate_grad_hook(lambda _, place=place: self._ready(place))
            for parameter, place in zip(flat.parameters, self._bucket_of, strict=True)
        ]

    def __enter__(self) -> Buckets:
        return self

    def __exit__(self, *_: object) -> None:
        for hook in self._hooks:
            hook.remove()
        self._thread.shutdown()

    def wait(self) -> None:
        """Until all buckets of this backward pass have come back."""
        for sent in self._sent:
            sent.result()
        self._sent.clear()
        self._missing[:] = self._sizes
        self._next = 0

    def _ready(self, place: int) -> None:
        """One more parameter of a bucket has its gradient."""
        self._missing[place] -= 1
        while self._next < len(self._missing) and not self._missing[self._next]:
            self._sent.append(self._thread.submit(self.send, self._tensors[self._next]))
            self._next += 1


def _edges(flat: Flat, bucket_B: float) -> list[int]:
    """Ends of the buckets from the end of the vector down to 0; each holds whole parameters and at least `bucket_B`."""
    edges = [len(flat)]
    for start, _ in reversed(flat.ranges):
        if (edges[-1] - start) * flat.gradients.element_size() >= bucket_B or start == 0:
            edges.append(start)
    return edges


@dataclass(frozen=True, slots=True)
class Settings:
    """How gradients travel."""

    algorithm: str = setting("ring", "All-reduce among the ranks.", choices=partial(among_ranks, "all-reduce"))
    bucket_B: float = setting(2.0**20, "Gradients sent at once.", least=1)


def run(worker: Worker, settings: Settings) -> Losses:
    """Averages gradients, then takes the step."""
    flat = worker.flat
    optimizer = worker.optimizer(flat.weights, REPLICATED)
    worker.holds(flat.weights, flat.gradients, *optimizer.held())
    with Buckets(flat, settings.bucket_B, lambda bucket: worker.wire.average(bucket, settings.algorithm)) as buckets:
        for step in worker.steps():
            loss = worker.gradient(step)
            buckets.wait()
            optimizer.step(flat.gradients)
            yield loss


SYNCHRONOUS = register(
    Method(
        name="synchronous",
        family="data parallel",
        summary="average the gradients of every step in overlapped buckets",
        source="Li et al. 2020 (PyTorch Distributed, VLDB 13), section 3.2",
        run=run,
        settings=Settings,
    )
)
