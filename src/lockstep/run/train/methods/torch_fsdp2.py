"""torch's FSDP2 (`fully_shard`): ZeRO-3 by torch's own hooks and distributed tensors, one unit per piece.

Source: Zhao et al. 2023, "PyTorch FSDP" (arXiv 2304.11277); torch.distributed.fsdp.fully_shard.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from lockstep.run.train.method import Losses, Method, NoSettings, register
from lockstep.run.train.worker import Worker

if TYPE_CHECKING:
    from torch import Tensor, nn


def run(worker: Worker, settings: NoSettings) -> Losses:
    """Trains the sharded model."""
    import torch

    from lockstep.run.train.exchanges import Counting

    model = _sharded(worker)
    parameters: list[Any] = list(model.parameters())
    optimizers = [worker.optimizer(_local(parameter).view(-1)) for parameter in parameters]
    for step in worker.steps():
        with Counting(worker.wire):
            loss = worker.loss(worker.batch(step), model)
            loss.backward()
        for parameter, optimizer in zip(parameters, optimizers, strict=True):
            optimizer.step(_local(parameter.grad).view(-1))
            parameter.grad = None
        yield float(loss.detach())
    worker.flat.load(torch.cat([parameter.full_tensor().detach().reshape(-1) for parameter in parameters]))


def _sharded(worker: Worker) -> nn.Module:
    """The model with every piece a unit of its own."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    # torch warns of models whose output is a view, as every linear layer's is; nothing here changes it in place.
    warnings.filterwarnings("ignore", message="FSDP2-wrapped module")
    mesh = init_device_mesh("cpu", (worker.ranks,))
    model = worker.new_model()
    for piece in model:
        fully_shard(piece, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def _local(distributed: Any) -> Tensor:
    """This rank's part of a distributed tensor."""
    part: Tensor = distributed.to_local().detach()
    return part


TORCH_FSDP2 = register(
    Method(
        name="torch-fsdp2",
        family="sharded data parallel",
        summary="torch's fully_shard, one unit per piece",
        source="Zhao et al. 2023 (arXiv 2304.11277)",
        run=run,
        assumptions=("torch-fsdp2: bytes are those of a ring for each gather and scatter; gloo does not report them",),
    )
)
