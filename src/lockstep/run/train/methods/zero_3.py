"""ZeRO-3: every rank keeps 1/n of weights, gradients and optimizer state; a piece is whole only while it is used.

    forward    all-gather the piece's weights, use them, forget them
    backward   all-gather them again, reduce-scatter the piece's gradients, forget both
Traffic per rank 3 (n - 1)/n of the weights: half as much again as an all-reduce.

Source: Rajbhandari et al. 2020, "ZeRO" (arXiv 1910.02054), sections 5.3 and 7.2.2.
"""

from __future__ import annotations

from lockstep.run.checkpoint import SHARDED
from lockstep.run.train.method import Losses, Method, NoSettings, register
from lockstep.run.train.shard import shards_of
from lockstep.run.train.worker import Worker, cross_entropy


def run(worker: Worker, settings: NoSettings) -> Losses:
    """Trains gathered pieces, steps on the own shares."""
    from lockstep.run.train.layers import Gathered

    shards = shards_of(worker.model, worker.wire)
    pieces = [Gathered(piece, shard) for piece, shard in zip(worker.model, shards, strict=True)]
    optimizers = [worker.optimizer(shard.weights, SHARDED, shard.own.start, shard.num_elems) for shard in shards]
    kept = [tensor for optimizer in optimizers for tensor in optimizer.held()]
    worker.holds(*worker.model.parameters(), *(t for shard in shards for t in (shard.weights, shard.gradients)), *kept)
    for step in worker.steps():
        x, targets = worker.batch(step)
        for piece in pieces:
            x = piece(x)
        loss = cross_entropy(x, targets)
        loss.backward()
        for shard, optimizer in zip(shards, optimizers, strict=True):
            optimizer.step(shard.gradients)
            shard.gradients.zero_()
        yield float(loss.detach())
    for shard in shards:
        shard.restore()


ZERO_3 = register(
    Method(
        name="zero-3",
        family="sharded data parallel",
        summary="weights are sharded too and gathered piece by piece",
        source="Rajbhandari et al. 2020 (arXiv 1910.02054), section 5.3",
        run=run,
    )
)
