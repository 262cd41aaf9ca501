"""Expert parallelism: every rank holds 1/n of the experts; samples travel to theirs and back by all-to-all.

Four all-to-alls per layer and step: there and back, forward and backward. Everything but the experts is replicated and
averaged as in data parallelism. An expert sees the samples of all ranks, so its gradient is already their sum.

Source: Lepikhin et al. 2020, "GShard" (arXiv 2006.16668), section 3.2; Fedus et al. 2021 (arXiv 2101.03961).
"""

from __future__ import annotations

from lockstep.base.errors import BadInput
from lockstep.run.train.method import Losses, Method, NoSettings, register
from lockstep.run.train.shard import Flat
from lockstep.run.train.task import Task
from lockstep.run.train.worker import Worker

EXPERTS = 4


def run(worker: Worker, settings: NoSettings) -> Losses:
    """Averages the gradients of the shared layers, scales those of the own experts."""
    from lockstep.run.train.layers import join_parts, spread

    model = worker.new_model()
    dims = spread(model, worker.wire)
    experts = Flat(p for name, p in model.named_parameters() if name in dims)
    shared = Flat(p for name, p in model.named_parameters() if name not in dims)
    optimizers = [(flat, worker.optimizer(flat.weights)) for flat in (shared, experts)]
    for step in worker.steps():
        shared.gradients.zero_(), experts.gradients.zero_()
        loss = worker.loss(worker.batch(step), model)
        loss.backward()
        worker.wire.average(shared.gradients)
        experts.gradients /= worker.ranks
        for flat, optimizer in optimizers:
            optimizer.step(flat.gradients)
        yield float(loss.detach())
    join_parts(model, worker.model, dims, worker.wire)


def _check(task: Task, ranks: int, settings: object) -> None:
    if EXPERTS % ranks:
        raise BadInput(f"{ranks} ranks do not divide {EXPERTS} experts; try 2 or 4", "--ranks")


EXPERT_PARALLEL = register(
    Method(
        name="expert-parallel",
        family="model parallel",
        summary="experts spread over ranks; samples travel by all-to-all",
        source="Lepikhin et al. 2020 (arXiv 2006.16668), section 3.2",
        run=run,
        models=("moe",),
        check=_check,
    )
)
