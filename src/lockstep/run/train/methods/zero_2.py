"""ZeRO-2: every rank keeps optimizer state and gradients of 1/n of the weights only.

    gradients of a piece: reduce-scatter as soon as the backward pass has made them, added to the own share, forgotten
Traffic per rank (m + 1)(n - 1)/n of the weights with m micro-batches: gradients travel once per micro-batch, because no
rank keeps the whole of them; with m = 1 as much as an all-reduce.

Source: Rajbhandari et al. 2020, "ZeRO" (arXiv 1910.02054), sections 5.2 and 7.2.
"""

from __future__ import annotations

from lockstep.run.checkpoint import SHARDED
from lockstep.run.train.method import Losses, Method, register
from lockstep.run.train.methods.accumulation import Settings, check_microbatches, micro_batches
from lockstep.run.train.shard import Shard, shards_of
from lockstep.run.train.worker import Worker


def run(worker: Worker, settings: Settings) -> Losses:
    """Scatters gradients piece by piece, steps on the own shares, gathers the weights."""
    shards = shards_of(worker.model, worker.wire)
    optimizers = [worker.optimizer(shard.weights, SHARDED, shard.own.start, shard.num_elems) for shard in shards]
    removals = [remove for shard in shards for remove in shard.add_when_ready()]
    kept = [tensor for optimizer in optimizers for tensor in optimizer.held()]
    worker.holds(*worker.model.parameters(), *(shard.gradients for shard in shards), *kept)
    for step in worker.steps(lambda: _restore(shards)):
        loss = 0.0
        for part in micro_batches(worker, step, settings.microbatches):
            share = worker.loss(part) / settings.microbatches
            share.backward()
            loss += float(share.detach())
        for shard, optimizer in zip(shards, optimizers, strict=True):
            optimizer.step(shard.gradients)
            shard.gradients.zero_()
            shard.restore()
        yield loss
    for remove in removals:
        remove()


def _restore(shards: list[Shard]) -> None:
    """The weights of all pieces from their shards."""
    for shard in shards:
        shard.restore()


ZERO_2 = register(
    Method(
        name="zero-2",
        family="sharded data parallel",
        summary="gradients are sharded too",
        source="Rajbhandari et al. 2020 (arXiv 1910.02054), section 5.2",
        run=run,
        settings=Settings,
        neutral={"microbatches": 1},
        check=check_microbatches,
    )
)
