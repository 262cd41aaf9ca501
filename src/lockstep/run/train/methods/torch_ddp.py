"""torch's DistributedDataParallel: the same average, by torch's own buckets and gloo's or NCCL's own all-reduce.

Source: Li et al. 2020, "PyTorch Distributed" (VLDB 13).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.run.checkpoint import REPLICATED
from lockstep.run.train.method import Losses, Method, NoSettings, register
from lockstep.run.train.worker import Worker

if TYPE_CHECKING:
    from torch import Tensor
    from torch.distributed import GradBucket
    from torch.futures import Future


def run(worker: Worker, settings: NoSettings) -> Losses:
    """Trains the wrapped model."""
    from torch.nn.parallel import DistributedDataParallel

    flat = worker.flat
    model = DistributedDataParallel(worker.model)
    # torch compares annotations with its own type, not with its name: a lambda has none.
    model.register_comm_hook(worker, lambda state, bucket: _count_and_average(state, bucket))
    optimizer = worker.optimizer(flat.weights, REPLICATED)
    for step in worker.steps():
        flat.gradients.zero_()
        loss = worker.loss(worker.batch(step), model)
        loss.backward()
        optimizer.step(flat.gradients)
        yield float(loss.detach())


def _count_and_average(worker: Worker, bucket: GradBucket) -> Future[Tensor]:
    """torch's own hook, after counting what a ring would send for the bucket."""
    from torch.distributed import distributed_c10d
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

    worker.wire.count_ring("all-reduce", bucket.buffer())
    averaged: Future[Tensor] = allreduce_hook(distributed_c10d._get_default_group(), bucket)
    return averaged


TORCH_DDP = register(
    Method(
        name="torch-ddp",
        family="data parallel",
        summary="torch's DistributedDataParallel",
        source="Li et al. 2020 (PyTorch Distributed, VLDB 13)",
        run=run,
        assumptions=("torch-ddp: bytes are those of a ring for each bucket; gloo does not report what it sends",),
    )
)
