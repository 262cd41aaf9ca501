"""Hogwild: all ranks of a machine write into the same weights in shared memory, without a lock.

    w <- w - (eta / n) g_k(w as it was read)                 each rank, whenever it is ready
Reads see half-written updates and writes may overwrite one another; rare where gradients are sparse. Nothing is
sent. With `in_turn` ranks read together and write one after another: synchronous SGD.

Source: Niu, Recht, Ré, Wright 2011, "Hogwild!" (NIPS, arXiv 1106.5730).
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.settings import setting
from lockstep.run.train.method import Losses, Method, register
from lockstep.run.train.task import Task
from lockstep.run.train.worker import Worker

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Settings:
    """Whether there is any order."""

    in_turn: bool = setting(False, "Read together, write one after another.")


def run(worker: Worker, settings: Settings) -> Losses:
    """Reads, computes, writes."""
    import torch.distributed as dist

    flat = worker.flat
    shared = _shared(worker)
    rate = worker.task.learning_rate / worker.ranks
    for step in range(worker.task.steps):
        flat.load(shared)
        loss = worker.gradient(step)
        for rank in range(worker.ranks if settings.in_turn else 0):
            dist.barrier()
            if rank == worker.rank:
                shared.sub_(flat.gradients, alpha=rate)
        if settings.in_turn:
            dist.barrier()
        else:
            shared.sub_(flat.gradients, alpha=rate)
        yield loss
    dist.barrier()
    flat.load(shared)


def _shared(worker: Worker) -> Tensor:
    """The weights in memory that all ranks map; its file is gone as soon as all have."""
    import torch
    import torch.distributed as dist

    weights, names = worker.flat.weights, [""]
    if worker.rank == 0:
        handle, names[0] = tempfile.mkstemp(prefix="lockstep-hogwild-")
        os.close(handle)
        weights.numpy().tofile(names[0])
    dist.broadcast_object_list(names)
    shared = torch.from_file(names[0], shared=True, size=len(weights), dtype=weights.dtype)
    dist.barrier()
    if worker.rank == 0:
        Path(names[0]).unlink()
    return shared


def _check(task: Task, ranks: int, settings: Settings) -> None:
    if task.optimizer != "sgd":
        raise BadInput(f"ranks that share weights have no common state; use sgd, not {task.optimizer}", "--optimizer")


HOGWILD = register(
    Method(
        name="hogwild",
        family="asynchronous and decentralized",
        summary="shared memory, no lock; one machine",
        source="Niu et al. 2011 (arXiv 1106.5730)",
        run=run,
        resumable=False,
        settings=Settings,
        neutral={"in_turn": True},
        check=_check,
    )
)
