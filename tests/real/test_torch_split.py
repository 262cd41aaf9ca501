"""DTensor itself is asked what layers send that `parallelize_module` splits among tensor-parallel ranks, with and
without sequence parallelism and recomputation; Lockstep's answer is the traffic of a step's trace.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
import torch
from agreement import Asker
from llama_of_ranks import Shape, priced_B
from recorded import Collectives, ranks_of
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.utils.checkpoint import checkpoint

from effort import share
from lockstep.price.layout import Layout, process_groups

pytestmark = pytest.mark.filterwarnings("ignore")
FEW, MORE = 1, 3
"""Layers of two models, whose difference is what layers send."""
EACH = (
    "where every product is given a plain tensor, DTensor sums its input's gradient once for each product; Lockstep, "
    "as Megatron does, once for those that read the same"
)


def parallelize(block: Any, mesh: Any, sequences: bool, joined: bool) -> None:
    """Splits a layer; `joined`: what several products read is one DTensor, as it must be where sequences are split."""
    rows, whole = Shard(1), Replicate()
    plan: dict[str, Any] = {
        **{f"attention.{name}": ColwiseParallel() for name in ("query", "key", "value")},
        **{f"feed_forward.{name}": ColwiseParallel() for name in ("gate", "up")},
    }
    outputs = ("attention.out", "feed_forward.down")
    if joined:
        read = PrepareModuleInput(input_layouts=(rows if sequences else whole,), desired_input_layouts=(whole,))
        plan |= {"attention": read, "feed_forward": read}
    if sequences:
        plan |= {"norm_1": SequenceParallel(), "norm_2": SequenceParallel()}
    parallelize_module(block, mesh, plan | {
        name: RowwiseParallel(output_layouts=rows) if sequences else RowwiseParallel() for name in outputs
    })  # fmt: skip


def sent(shape: Shape, layers: int, ranks: int, sequences: bool, joined: bool, again: bool) -> list[Any]:
    """What a step's layers send, their first input's gradient among it."""
    mesh = torch.distributed.init_device_mesh("cpu", (ranks,))
    blocks = [*shape.model()[1 : 1 + layers]]
    for one in blocks:
        parallelize(one, mesh, sequences, joined)
    rows = shape.seq // ranks if sequences else shape.seq
    stream = first = torch.randn(shape.sequences, rows, shape.hidden, requires_grad=True)
    with Collectives() as found:
        for one in blocks:
            stream = checkpoint(one, stream, use_reentrant=False) if again else one(stream)
        stream.sum().backward()
    assert first.grad is not None
    return found.sent


def test_a_layer_that_is_split(asked: Asker) -> None:
    """In fp32 throughout."""
    with asked("torch", "bytes of a layer split by parallelize_module, by sequences too, and its ranks") as answers:
        for seed in share(range(100), 20):
            random = Random(seed)
            ranks, sequences, again = random.choice([2, 4, 8]), random.random() < 0.6, random.random() < 0.4
            joined = sequences or random.random() < 0.6
            shape = Shape.drawn(random, ranks, layers=(MORE,))
            theirs: Counter[str] = Counter()
            with ranks_of(ranks):
                found = [sent(shape, layers, ranks, sequences, joined, again) for layers in (FEW, MORE)]
            for few, more in (found,):
                theirs.update(Counter({one.op: 0 for one in more}))
                for sign, some in ((-1, few), (1, more)):
                    for one in some:
                        theirs[one.op] += sign * one.size_B
            layout = Layout(
                tp=ranks,
                sequence_parallel=sequences,
                recompute="full" if again else "none",
                micro_batch=shape.sequences,
            )
            ours = priced_B(shape, layout, "tp", batch=shape.sequences, dtype="fp32")
            layers = {op: size_B * (MORE - FEW) // MORE for op, size_B in ours.items()}
            case = f"{shape} among {ranks}, sequences {sequences}, again {again}"
            answers.compare(case, layers, dict(+theirs), why="" if joined else EACH)
            groups = {one.ranks for one in found[1]}
            answers.compare(f"{case}: ranks", {tuple(process_groups(layout, "tp")[0])}, groups)
