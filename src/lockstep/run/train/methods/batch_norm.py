"""Batch normalization in data parallelism: statistics of the whole batch, or of each worker's share.

    y = gamma (x - mean) / sqrt(var + eps) + beta            mean and var per channel, over samples and pixels
local          every worker normalizes by its own share: another function of the batch than one process computes, with
               noisier statistics the smaller the share
synchronized   mean and variance are averaged over workers, forward and backward: what one process computes
torch's SyncBatchNorm needs a GPU; this one does not. Test data are normalized by rank 0's running statistics.

Source: Ioffe and Szegedy 2015 (arXiv 1502.03167); Peng et al. 2018, "MegDet" (arXiv 1711.07240), 3.3.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from lockstep.base.records import dataclass
from lockstep.base.settings import setting
from lockstep.run.checkpoint import REPLICATED
from lockstep.run.train.method import Losses, Method, register
from lockstep.run.train.worker import Worker

if TYPE_CHECKING:
    from torch import Tensor, nn


@dataclass(frozen=True, slots=True)
class Settings:
    """Whose statistics."""

    statistics: str = setting(
        "synchronized", "Statistics of the whole batch or a share.", choices=("synchronized", "local")
    )


def run(worker: Worker, settings: Settings) -> Losses:
    """Synchronous SGD with a norm in every convolution."""
    from lockstep.run.train.layers import normalize

    normalize(worker.model, worker.wire if settings.statistics == "synchronized" else None)
    worker.model.to(worker.dtype)
    flat = worker.flat
    optimizer = worker.optimizer(flat.weights, REPLICATED)
    worker.keep("statistics", lambda: dict(worker.model.named_buffers()), partial(_load, worker.model))
    for step in worker.steps():
        loss = worker.gradient(step)
        worker.wire.average(flat.gradients)
        optimizer.step(flat.gradients)
        yield loss


def _load(model: nn.Module, buffers: dict[str, Tensor]) -> None:
    for name, buffer in model.named_buffers():
        buffer.copy_(buffers[name])


BATCH_NORM = register(
    Method(
        name="batch-norm",
        family="data parallel",
        summary="statistics over all ranks, or each its own",
        source="Peng et al. 2018 (arXiv 1711.07240), section 3.3",
        run=run,
        settings=Settings,
        neutral=None,
        models=("cnn",),
    )
)
