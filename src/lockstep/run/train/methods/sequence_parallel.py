"""Sequence parallelism: tensor parallelism that also splits what lies between the matrices, along the sequence.

An all-reduce becomes a reduce-scatter behind a pair of matrices and an all-gather before the next: the same bytes, and
norms and residuals take 1/n of the work and of the memory. Parameters between the matrices see 1/n of the sequence,
so their gradients are summed over ranks.

Source: Korthikanti et al. 2022, "Reducing Activation Recomputation" (arXiv 2205.05198), section 4.2.2.
"""

from __future__ import annotations

from lockstep.run.train.method import Losses, Method, NoSettings, register
from lockstep.run.train.methods.tensor_parallel import check_widths
from lockstep.run.train.shard import Flat
from lockstep.run.train.worker import Worker, cross_entropy


def run(worker: Worker, settings: NoSettings) -> Losses:
    """Trains the split model; sums the gradients of what is not split."""
    from lockstep.run.train.exchanges import join, take
    from lockstep.run.train.layers import SEQUENCE_DIM, join_parts, split

    wire, model = worker.wire, worker.new_model()
    dims = split(model, wire, sequence=True)
    first, *blocks, last = model
    named = [(f"{place}.{name}", p) for place, block in enumerate(blocks, 1) for name, p in block.named_parameters()]
    partial = Flat(p for name, p in named if name not in dims)
    others = Flat([*first.parameters(), *(p for name, p in named if name in dims), *last.parameters()])
    optimizers = [(flat, worker.optimizer(flat.weights)) for flat in (partial, others)]
    for step in worker.steps():
        inputs, targets = worker.batch(step)
        x = take(wire, first(inputs), SEQUENCE_DIM)
        for block in blocks:
            x = block(x)
        loss = cross_entropy(last(join(wire, x, SEQUENCE_DIM)), targets)
        partial.gradients.zero_(), others.gradients.zero_()
        loss.backward()
        wire.all_reduce(partial.gradients)
        for flat, optimizer in optimizers:
            optimizer.step(flat.gradients)
        yield float(loss.detach())
    join_parts(model, worker.model, dims, wire)


SEQUENCE_PARALLEL = register(
    Method(
        name="sequence-parallel",
        family="model parallel",
        summary="tensor parallel, with the sequence split between the matrices",
        source="Korthikanti et al. 2022 (arXiv 2205.05198), section 4.2.2",
        run=run,
        models=("gpt",),
        splits_batch=False,
        check=check_widths,
    )
)
