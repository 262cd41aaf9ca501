"""Gradient accumulation: the share of a worker in m micro-batches, one exchange for all of them.

    g_k = (1/m) sum_i g_k,i
m micro-batches of equal size: the same gradient from 1/m of the activation memory.

Source: Li et al. 2020 (PyTorch Distributed, VLDB 13), section 3.2.4 (no_sync).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.settings import setting
from lockstep.run.checkpoint import REPLICATED
from lockstep.run.train.method import Losses, Method, register
from lockstep.run.train.task import Task
from lockstep.run.train.worker import Batch, Worker


@dataclass(frozen=True, slots=True)
class Settings:
    """How a share is cut."""

    microbatches: int = setting(4, "Micro-batches per step.", least=1)


def run(worker: Worker, settings: Settings) -> Losses:
    """Adds up micro-batches, averages once, takes the step."""
    flat = worker.flat
    optimizer = worker.optimizer(flat.weights, REPLICATED)
    for step in worker.steps():
        loss = accumulate(worker, step, settings.microbatches)
        worker.wire.average(flat.gradients)
        optimizer.step(flat.gradients)
        yield loss


def accumulate(worker: Worker, step: int, microbatches: int) -> float:
    """Fills the gradients from micro-batches; returns the loss of the worker's share."""
    worker.flat.gradients.zero_()
    total = 0.0
    for part in micro_batches(worker, step, microbatches):
        loss = worker.loss(part) / microbatches
        loss.backward()
        total += float(loss.detach())
    return total


def micro_batches(worker: Worker, step: int, microbatches: int) -> Iterator[Batch]:
    """The worker's share in equal parts."""
    inputs, targets = worker.batch(step)
    return zip(inputs.chunk(microbatches), targets.chunk(microbatches), strict=True)


def check_microbatches(task: Task, ranks: int, settings: Any) -> None:
    """Refuses micro-batches that do not divide a worker's share."""
    share, number = task.share(ranks), settings.microbatches
    if share % number:
        raise BadInput(f"{number} micro-batches do not divide a share of {share} samples", "--set microbatches")


ACCUMULATION = register(
    Method(
        name="accumulation",
        family="data parallel",
        summary="several micro-batches per exchange",
        source="Li et al. 2020 (PyTorch Distributed, VLDB 13), section 3.2.4",
        run=run,
        settings=Settings,
        neutral={"microbatches": 1},
        check=check_microbatches,
    )
)
