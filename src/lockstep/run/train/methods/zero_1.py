"""ZeRO-1: every rank keeps the optimizer's state of 1/n of the weights only.

    s_k = [reduce-scatter g]_k / n;  w_k <- step(w_k, s_k);  w <- all-gather w_k
k rank of n, w_k and g_k its share of weights and gradients. Traffic per rank 2 (n - 1)/n of the weights, as much as an
all-reduce: the ring all-reduce is those two halves, so the weights are the same bits.

Source: Rajbhandari et al. 2020, "ZeRO" (arXiv 1910.02054), sections 5.1 and 7.1.
"""

from __future__ import annotations

from lockstep.run.checkpoint import SHARDED
from lockstep.run.train.method import Losses, Method, NoSettings, register
from lockstep.run.train.worker import Worker


def run(worker: Worker, settings: NoSettings) -> Losses:
    """Scatters the gradients, steps on the own share, gathers the weights."""
    flat, wire = worker.flat, worker.wire
    share = wire.share(len(flat))
    optimizer = worker.optimizer(flat.weights[share], SHARDED, share.start, len(flat))
    worker.holds(flat.weights, flat.gradients, *optimizer.held())
    for step in worker.steps(lambda: wire.all_gather(flat.weights)):
        loss = worker.gradient(step)
        optimizer.step(wire.reduce_scatter(flat.gradients) / worker.ranks)
        wire.all_gather(flat.weights)
        yield loss


ZERO_1 = register(
    Method(
        name="zero-1",
        family="sharded data parallel",
        summary="each rank steps on 1/n of the weights and keeps their optimizer state",
        source="Rajbhandari et al. 2020 (arXiv 1910.02054), section 5.1",
        run=run,
    )
)
