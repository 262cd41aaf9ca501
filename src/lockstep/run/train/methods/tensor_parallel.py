"""Tensor parallelism: every rank holds 1/n of each large matrix, and all work on the same batch.

Two linear layers are split by columns, then by rows: one all-reduce of the activations forward, one backward, for each
pair (an attention and an MLP are a pair each).

Source: Shoeybi et al. 2019, "Megatron-LM" (arXiv 1909.08053), section 3.
"""

from __future__ import annotations

from lockstep.base.errors import BadInput
from lockstep.run.train.method import Losses, Method, NoSettings, register
from lockstep.run.train.shard import Flat
from lockstep.run.train.task import Task
from lockstep.run.train.worker import Worker

HEADS = 4
WIDTHS = {"gpt": HEADS, "mlp": 128}


def run(worker: Worker, settings: NoSettings) -> Losses:
    """Trains the split model; every rank steps on its own part."""
    from lockstep.run.train.layers import join_parts, split

    model = worker.new_model()
    dims = split(model, worker.wire, sequence=False)
    flat = Flat(model.parameters())
    optimizer = worker.optimizer(flat.weights)
    worker.holds(flat.weights, flat.gradients, *optimizer.held())
    for step in worker.steps():
        flat.gradients.zero_()
        loss = worker.loss(worker.batch(step), model)
        loss.backward()
        optimizer.step(flat.gradients)
        yield float(loss.detach())
    join_parts(model, worker.model, dims, worker.wire)


def check_widths(task: Task, ranks: int, settings: object) -> None:
    """Refuses ranks that do not divide what is split."""
    width = WIDTHS[task.model]
    if width % ranks:
        what = "attention heads" if task.model == "gpt" else "hidden units"
        raise BadInput(f"{ranks} ranks do not divide {width} {what}; try 2 or 4", "--ranks")


TENSOR_PARALLEL = register(
    Method(
        name="tensor-parallel",
        family="model parallel",
        summary="matrices split by columns and rows; activations are all-reduced",
        source="Shoeybi et al. 2019 (arXiv 1909.08053), section 3",
        run=run,
        models=("mlp", "gpt"),
        splits_batch=False,
        check=check_widths,
    )
)
