"""Local SGD: H steps of each worker on its own, then the weights are averaged.

    bytes per step = those of synchronous SGD / H
Also called periodic averaging, and FedAvg with all clients. With plain SGD and H = 1 it averages what synchronous SGD
averages.

`train_in_rounds`: workers step by themselves, then agree by an outer update of what they moved on average.

    x        weights that all workers agree on
    y_k      those of worker k after its own steps from x, each on its own share of the batch
    delta    x - (1/n) sum_k y_k
    x        <- outer update of x with delta; everybody goes on from there
The run ends with a round, however long it has been.

Source: Stich 2019, "Local SGD converges fast and communicates little" (ICLR, arXiv 1805.09767), algorithm 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from lockstep.base.records import dataclass
from lockstep.base.settings import setting
from lockstep.learn.methods.local import BUFFER_POLICIES, Outer
from lockstep.run.train.method import Losses, Method, register

if TYPE_CHECKING:
    from torch import Tensor

    from lockstep.run.train.task import Descent
    from lockstep.run.train.worker import Worker

PERIOD = setting(8, "Local steps between two averages.", least=1)
BUFFERS = setting("keep", "What becomes of the local optimizer's moments at an average.", choices=BUFFER_POLICIES)


def train_in_rounds(worker: Worker, ends: Callable[[int], bool], outer: Outer, buffers: str) -> Losses:
    """Local steps; the outer update after every step for which `ends(steps done)` holds."""
    import torch

    flat, steps = worker.flat, worker.task.steps
    optimizer = worker.optimizer(flat.weights)
    start, momentum = flat.weights.clone(), torch.zeros_like(flat.weights)

    def agree_on(nested: tuple[Tensor, Tensor]) -> None:
        nonlocal start, momentum
        start, momentum = nested

    worker.keep("round", lambda: (start, momentum), agree_on)
    for step in worker.steps():
        loss = worker.gradient(step)
        optimizer.step(flat.gradients)
        if ends(step + 1) or step + 1 == steps:
            delta = start - flat.weights
            worker.wire.average(delta)
            start, momentum = outer.update(start, delta, momentum)
            flat.load(start)
            _settle(worker, optimizer, buffers)
        yield loss


def _settle(worker: Worker, optimizer: Descent, policy: str) -> None:
    """Moments of the local optimizer for the next round: kept, averaged or reset (`methods.local.buffers`)."""
    for moments in optimizer.held():
        if policy == "average":
            worker.wire.average(moments)
        elif policy == "reset":
            moments.zero_()


@dataclass(frozen=True, slots=True)
class Settings:
    """The round."""

    period: int = PERIOD
    buffers: str = BUFFERS


def run(worker: Worker, settings: Settings) -> Losses:
    """Averages after every period."""
    return train_in_rounds(worker, lambda done: done % settings.period == 0, Outer(), settings.buffers)


LOCAL_SGD = register(
    Method(
        name="local-sgd",
        family="local steps",
        summary="several steps alone, then the weights are averaged",
        source="Stich 2019 (arXiv 1805.09767), algorithm 1",
        run=run,
        settings=Settings,
        neutral={"period": 1},
    )
)
