"""Every worker takes a step with its own gradient, then all average their weights.

    w_k <- w - eta g_k(w);   w <- (1/n) sum_k w_k
The same as synchronous SGD where a step is linear in the gradient, as plain SGD is.

Source: definition; local SGD with rounds of one step.
"""

from __future__ import annotations

from lockstep.run.train.method import Losses, Method, NoSettings
from lockstep.run.train.worker import Worker


def run(worker: Worker, settings: NoSettings) -> Losses:
    """Steps, then averages."""
    flat = worker.flat
    optimizer = worker.optimizer(flat.weights)
    for step in worker.steps():
        loss = worker.gradient(step)
        optimizer.step(flat.gradients)
        worker.wire.average(flat.weights)
        yield loss


AVERAGE_WEIGHTS = Method(
    name="average-weights",
    family="local steps",
    summary="average the weights after every step",
    source="definition",
    run=run,
)
