"""Local SGD: H steps of each worker on its own, then the weights are averaged.

    bytes per step = those of synchronous SGD / H
Also called periodic averaging, and FedAvg with all clients. With plain SGD and H = 1 it averages what synchronous SGD
averages.

Source: Stich 2019, "Local SGD converges fast and communicates little" (ICLR, arXiv 1805.09767), algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass

from lockstep.measure.train.method import Losses, Method, register
from lockstep.measure.train.rounds import BUFFERS, PERIOD, train_in_rounds
from lockstep.measure.train.worker import Worker
from lockstep.methods.local import Outer


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
