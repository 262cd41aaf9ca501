"""Synchronous data-parallel SGD: every step, the gradients of all workers are averaged before anyone uses them.

    w <- w - eta (1/n) sum_k g_k(w)
w weights, eta learning rate, g_k mean gradient of worker k on its n-th part of the batch. Equal parts make the average
the gradient of the whole batch, so n workers do what one would.

Gradients travel in buckets, filled from the last layer backwards and reduced while the backward pass goes on.

Source: Li et al. 2020, "PyTorch Distributed" (VLDB 13), section 3.2 (buckets, overlap).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from lockstep.collectives import algorithms
from lockstep.measure.checkpoint import REPLICATED
from lockstep.measure.train.buckets import Buckets
from lockstep.measure.train.method import Losses, Method, register
from lockstep.measure.train.worker import Worker
from lockstep.settings import setting


@dataclass(frozen=True, slots=True)
class Settings:
    """How gradients travel."""

    algorithm: str = setting("ring", "All-reduce among the ranks.", choices=partial(algorithms, "all-reduce"))
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
