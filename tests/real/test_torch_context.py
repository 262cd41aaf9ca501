"""PyTorch's context parallelism is asked what one layer's attention sends, in a ring and by gathers, forward and
backward, on tensors without storage; Lockstep's answer is the traffic that it prices for the layer.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
import torch
from agreement import Asker
from recorded import Collectives, Sent, ranks_of
from torch.distributed.tensor.experimental._context_parallel import _attention as ring
from torch.distributed.tensor.experimental._context_parallel._cp_custom_ops import (
    flex_cp_allgather,
    flex_cp_allgather_backward,
)

from effort import share
from lockstep.describe.workload import Attention, Mlp, Transformer
from lockstep.price.layout import Layout
from lockstep.price.layout.kept import context_blocks, piece
from lockstep.simulate.parallel.context import pieces
from lockstep.simulate.parallel.group import on_link
from recipes import recipe_by

pytestmark = pytest.mark.filterwarnings("ignore")
STEP = "all-to-all"
"""A step of PyTorch's ring: every rank has something for the next one alone."""
WIDE = "PyTorch's ring sends gradients of keys and values in fp32, and as often as there are ranks, Lockstep once less"
KEPT = (
    "behind PyTorch's gather the keys and values of all ranks are kept; Lockstep gathers them again, as Megatron does"
)


def drawn(seed: int) -> tuple[Transformer, int, int, int, str]:
    """A model of one layer, ranks, a rank's sequences and tokens, and the format."""
    random = Random(seed)
    kv_heads = random.choice([1, 2, 4])
    attention = Attention(heads=kv_heads * random.choice([1, 2, 4]), kv_heads=kv_heads, head_dim=random.choice([8, 64]))
    sizes = {"layers": 1, "hidden": 64, "vocab": 64, "max_positions": 4096}
    model = Transformer(
        name="one", attention=attention, mlp=Mlp(ffn=64), positions="rotary", norm="rmsnorm", **sizes
    )  # fmt: skip
    ranks = random.choice([2, 3, 4, 8])
    return model, ranks, random.randint(1, 3), 2 * random.randint(1, 64), random.choice(["bf16", "fp32"])


def said(kind: str, seed: int) -> list[Counter[str]]:
    """Bytes that Lockstep has, forward and backward, by collective."""
    model, ranks, sequences, tokens, dtype = drawn(seed)
    recipe = recipe_by("torchtitan", seq=tokens * ranks, batch=sequences, dtype=dtype, repeated_heads=False)
    one = piece(recipe, Layout(cp=ranks, micro_batch=sequences).grid(), model)
    found = []
    for side in pieces(kind, on_link(ranks, LINK), ranks, context_blocks(model, one)):
        sizes: Counter[str] = Counter()
        for flow in side.flows:
            sizes[flow.op] += round(float(flow.size_B))
        found.append(sizes)
    return found


class LINK:
    """Any link."""

    latency_s, bandwidth_Bps = 1e-6, 1e9


def tensors(seed: int, repeated: bool) -> tuple[Any, Any, Any]:
    """Queries, keys and values of a rank."""
    model, _, sequences, tokens, dtype = drawn(seed)
    attention, made = model.attention, {"bf16": torch.bfloat16, "fp32": torch.float32}[dtype]
    heads = attention.heads, *[attention.heads if repeated else attention.kv_heads] * 2
    query, key, value = (
        torch.empty(sequences, of, tokens, attention.head_dim, device="meta", dtype=made) for of in heads
    )
    return query, key, value


def by_phase(sent: list[Sent]) -> list[Counter[str]]:
    """Bytes by collective, forward and backward."""
    found = [Counter[str](), Counter[str]()]
    for one in sent:
        found[one.phase == "backward"][one.op] += one.size_B
    return found


def test_ring_attention(asked: Asker) -> None:
    """Rotated by messages."""
    ring.set_rotate_method("alltoall")
    with asked("torch", "bytes of ring attention (context_parallel), forward and backward") as answers:
        for seed in share(range(60), 4):
            ranks, (query, key, value) = drawn(seed)[1], tensors(seed, repeated=False)
            with ranks_of(ranks), Collectives() as found:
                mesh = torch.distributed.init_device_mesh("cpu", (ranks,))
                words = {"is_causal": True}
                out, lse, *more = ring._scaled_dot_product_ring_flash_attention(mesh, query, key, value, **words)
                found.phase = "backward"
                ring._scaled_dot_product_ring_flash_attention_backward(
                    mesh, out, query, key, value, out, lse, *more[:4], 0.0, True, *more[4:6]
                )
            theirs = by_phase(found.sent)
            ours = said("ring", seed)
            answers.compare(f"{drawn(seed)[1:]} forward", ours[0]["send"], theirs[0][STEP])
            answers.compare(f"{drawn(seed)[1:]} backward", ours[1]["send"], theirs[1][STEP], why=WIDE)


def test_gathered_attention(asked: Asker) -> None:
    """Keys and values gathered before attention, their gradients scattered after it."""
    with asked("torch", "bytes of gathered keys and values (context_parallel of FlexAttention)") as answers:
        for seed in share(range(60), 4):
            ranks, (_, key, value) = drawn(seed)[1], tensors(seed, repeated=False)
            with ranks_of(ranks), Collectives() as found:
                group = torch.distributed.group.WORLD.group_name
                given = flex_cp_allgather._init_fn(key, value, 2, group)
                found.phase = "backward"
                flex_cp_allgather_backward._init_fn(*given, 2, group)
            theirs, ours = by_phase(found.sent), said("gather", seed)
            answers.compare(f"{drawn(seed)[1:]} forward", dict(ours[0]), dict(theirs[0]))
            answers.compare(f"{drawn(seed)[1:]} scattered", ours[1]["reduce-scatter"], theirs[1]["reduce-scatter"])
            answers.compare(f"{drawn(seed)[1:]} again", ours[1]["all-gather"], theirs[1]["all-gather"], why=KEPT)
