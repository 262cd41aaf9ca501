"""Gossip: every worker steps on its own, then averages with its neighbours only; nobody waits for all.

    x_k <- sum_j W_kj (x_j - eta g_j(x_j))
    ring          neighbours k - 1 and k + 1, weights 1/3 each (two workers: 1/2)
    exponential   step t: the neighbour 2^(t mod log2 n) places ahead, weights 1/2
    complete      everybody, weights 1/n: synchronous SGD with plain SGD
The workers' weights differ during the run, least where W has a small second eigenvalue; at its end they are averaged,
and `disagreement` says by how much they differed (largest distance of an entry from its mean).

Source: Lian et al. 2017, "Can decentralized algorithms outperform centralized algorithms?" (arXiv 1705.09056), stepping
before the exchange; Assran et al. 2019 (arXiv 1811.10792), exponential graph.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.settings import setting
from lockstep.run.train.method import Losses, Method, register
from lockstep.run.train.task import Task
from lockstep.run.train.worker import Worker

if TYPE_CHECKING:
    from torch import Tensor

    from lockstep.run.train.wire import Wire


@dataclass(frozen=True, slots=True)
class Settings:
    """Who talks to whom."""

    topology: str = setting("ring", "Neighbours of a worker.", choices=("ring", "exponential", "complete"))


def run(worker: Worker, settings: Settings) -> Losses:
    """Steps, then mixes."""
    flat = worker.flat
    optimizer = worker.optimizer(flat.weights)
    for step in worker.steps():
        loss = worker.gradient(step)
        optimizer.step(flat.gradients)
        _mix(worker.wire, flat.weights, settings.topology, step)
        yield loss
    mean = flat.weights.clone()
    worker.wire.average(mean)
    worker.notes["disagreement"] = float((flat.weights - mean).abs().max())
    flat.load(mean)


def _mix(wire: Wire, weights: Tensor, topology: str, step: int) -> None:
    """One average with the neighbours, in place."""
    if topology == "complete":
        wire.average(weights)
    elif topology == "ring":
        wire.average_neighbours(weights)
    elif wire.ranks > 1:
        ahead = 1 << step % (wire.ranks.bit_length() - 1)
        theirs = weights.new_empty(len(weights))
        wire.exchange(weights, (wire.rank + ahead) % wire.ranks, theirs, (wire.rank - ahead) % wire.ranks)
        weights.add_(theirs).div_(2)


def _check(task: Task, ranks: int, settings: Settings) -> None:
    if settings.topology == "exponential" and ranks & (ranks - 1):
        raise BadInput(f"an exponential graph needs a power of two of ranks, got {ranks}", "--ranks")


GOSSIP = register(
    Method(
        name="gossip",
        family="asynchronous and decentralized",
        summary="averages with neighbours only",
        source="Lian et al. 2017 (arXiv 1705.09056)",
        run=run,
        settings=Settings,
        neutral={"topology": "complete"},
        check=_check,
    )
)
