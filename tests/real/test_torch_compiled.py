"""AOT autograd traces a layer as torch.compile does, its partitioner chooses what is kept, and both parts
run on a CPU; Lockstep's answer is what it says that a compiled layer keeps.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
import torch
from agreement import Asker
from functorch.compile import aot_module, make_boxed_func, min_cut_rematerialization_partition
from llama_of_ranks import Block, Shape

from effort import share
from lockstep.describe.workload import kept_tensors
from lockstep.price.layout import Layout
from lockstep.price.layout.kept import piece
from recipes import recipe_by

pytestmark = pytest.mark.filterwarnings("ignore")
WITHIN = 0.01
"""The scales of norms are 8 bytes of a token, which Lockstep leaves out."""


def drawn(seed: int) -> Shape:
    """A layer whose rows are long."""
    random = Random(seed)
    kv_heads, shared = random.choice([2, 4]), random.choice([1, 2])
    heads, head = kv_heads * shared, random.choice([32, 64])
    sizes = random.choice([256, 384, 512]), heads, kv_heads, head, 64 * random.randint(8, 24)
    return Shape(*sizes, vocab=64, layers=1, seq=32 * random.randint(1, 4), sequences=random.randint(1, 2))


def saved_B(shape: Shape, dtype: torch.dtype) -> int:
    """Bytes that wait between both passes, the layer's input too."""
    layer = Block(shape).to(dtype)
    held: dict[int, int] = {}

    def forward(graph: Any, _: Any) -> Any:
        def run(*args: Any) -> Any:
            given = graph(*args)
            for one in given[1:]:
                if isinstance(one, torch.Tensor):
                    storage = one.untyped_storage()
                    held[storage.data_ptr()] = storage.nbytes()
            return given

        return make_boxed_func(run)

    def backward(graph: Any, _: Any) -> Any:
        return make_boxed_func(graph)

    x = torch.randn(shape.sequences, shape.seq, shape.hidden, dtype=dtype, requires_grad=True)
    compiled = aot_module(layer, forward, backward, partition_fn=min_cut_rematerialization_partition)
    given = compiled(x)
    for one in layer.parameters():
        held.pop(one.untyped_storage().data_ptr(), None)
    given.sum().backward()
    assert x.grad is not None
    return sum(held.values())


def test_what_a_compiled_layer_keeps(asked: Asker) -> None:
    """In bf16 and in fp32."""
    with asked("torch", "bytes that a compiled layer keeps (AOT autograd, min-cut partition)") as answers:
        for seed in share(range(40), 10):
            shape = drawn(seed)
            for dtype, name in ((torch.bfloat16, "bf16"), (torch.float32, "fp32")):
                recipe = recipe_by("torchtitan", seq=shape.seq, batch=shape.sequences, dtype=name)
                one = piece(recipe, Layout(micro_batch=shape.sequences).grid(), shape.described)
                ours = sum(float(row.size_B) for row in kept_tensors(shape.described, one))
                answers.compare(f"{shape} {name}", ours, saved_B(shape, dtype), within=WITHIN)
