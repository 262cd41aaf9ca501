"""Passes over memory of losses, norms and rotary embedding, against those of torch's own operations.

A dispatch mode sees every operation that torch runs, forward and backward, and adds up the bytes of its operands: an
oracle for the counts, which were made by hand from the same programs. Tensors are on the device `meta`: sizes alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lockstep.hardware import cluster
from lockstep.kernels.clock import Clock
from lockstep.kernels.layer import activation, head_work
from lockstep.kernels.loss import PASSES
from lockstep.kernels.norms import NORMS, ROTARY, WRITTEN_NORM, WRITTEN_ROTARY
from lockstep.kernels.shard import Shard
from lockstep.layout import Layout, Recipe
from lockstep.workload import Transformer, model

torch: Any = pytest.importorskip("torch", reason="needs torch")
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

HALF_B = 2
TOKENS, WIDTH = 512, 4096
READS, AGAIN = {"_log_softmax": 3}, "_log_softmax_backward_data"
"""Times that a kernel reads its operands: SoftMax.cu takes maximum, sum and result in turn; and the one whose first
operand is read twice."""
FILLS = ("new_zeros", "zeros_like", "new_empty", "empty_like", "zeros", "full_like", "new_full")
VIEWS = (
    "view",
    "t",
    "expand",
    "unsqueeze",
    "squeeze",
    "detach",
    "slice",
    "transpose",
    "alias",
    "_unsafe_view",
    "select",
)


class Moved(TorchDispatchMode):  # type: ignore[misc]
    """Bytes of all operands and results of the operations within, of tensors of at least a row."""

    def __init__(self) -> None:
        super().__init__()
        self.size_B = 0.0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if name in VIEWS:
            return found
        given = [one for one in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor)]
        made = [one for one in torch.utils._pytree.tree_leaves(found) if isinstance(one, torch.Tensor)]
        size_B = READS.get(name, 1) * sum(map(_bytes, given)) + sum(map(_bytes, made))
        if name == AGAIN:
            size_B += _bytes(given[0])
        self.size_B += sum(map(_bytes, made)) if name in FILLS else size_B
        return found


def _bytes(tensor: Any) -> float:
    """Bytes behind a tensor, of which an expanded dimension has one element."""
    elements = 1
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        elements *= size if stride else 1
    return float(elements * tensor.element_size())


def _passes(forward: Callable[[Any], Any], elements: int, start: Any) -> tuple[float, float]:
    """Passes in half precision per element, forward and backward."""
    with Moved() as there:
        found = forward(start)
    gradient = torch.empty_like(found)
    with Moved() as back:
        found.backward(gradient)
    return there.size_B / (HALF_B * elements), back.size_B / (HALF_B * elements)


def _logits() -> Any:
    return torch.empty(TOKENS, WIDTH, dtype=torch.bfloat16, device="meta", requires_grad=True)


class InPlace(torch.autograd.Function):  # type: ignore[misc]
    """Megatron's vocabulary-parallel cross entropy on one rank, as its paper and code describe it."""

    @staticmethod
    def forward(ctx: Any, logits: Any, target: Any) -> Any:
        wide = logits.float()
        wide -= wide.amax(-1, keepdim=True)
        wide.exp_()
        total = wide.sum(-1, keepdim=True)
        wide /= total
        ctx.save_for_backward(wide)
        return total.log().squeeze(-1)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        (softmax,) = ctx.saved_tensors
        softmax *= gradient.unsqueeze(-1)
        return softmax.bfloat16(), None


def test_megatrons_loss_in_place() -> None:
    target = torch.empty(TOKENS, dtype=torch.int64, device="meta")
    forward, backward = _passes(lambda logits: InPlace.apply(logits, target), TOKENS * WIDTH, _logits())
    assert PASSES["in-place"][:2] == pytest.approx((forward, backward), abs=0.1)


def test_torchs_loss_one_kernel_after_another() -> None:
    target = torch.empty(TOKENS, dtype=torch.int64, device="meta")

    def loss(logits: Any) -> Any:
        return torch.nn.functional.cross_entropy(logits.float(), target, reduction="none")

    forward, backward = _passes(loss, TOKENS * WIDTH, _logits())
    # The gather and scatter of one logit per token are counted in full here, and touch next to nothing.
    assert PASSES["eager"][0] == pytest.approx(forward - 2, abs=0.2)
    assert PASSES["eager"][1] == pytest.approx(backward - 2, abs=0.2)


def test_rmsnorm_as_transformers_writes_it() -> None:
    weight = torch.empty(WIDTH, dtype=torch.bfloat16, device="meta", requires_grad=True)

    def norm(hidden: Any) -> Any:
        wide = hidden.to(torch.float32)
        variance = wide.pow(2).mean(-1, keepdim=True)
        return weight * (wide * torch.rsqrt(variance + 1e-6)).to(torch.bfloat16)

    forward, backward = _passes(norm, TOKENS * WIDTH, _logits())
    assert WRITTEN_NORM[0] == pytest.approx(forward, abs=0.2)
    assert WRITTEN_NORM[1] == pytest.approx(backward, abs=0.2)
    assert max(norm[0] for norm in NORMS.values()) < forward / 5


def test_rotary_embedding_as_transformers_writes_it() -> None:
    heads, dim = 8, 128
    cos, sin = (torch.empty(TOKENS, dim, dtype=torch.bfloat16, device="meta") for _ in range(2))

    def rotated(queries: Any) -> Any:
        half = torch.cat((-queries[..., dim // 2 :], queries[..., : dim // 2]), dim=-1)
        return queries * cos + half * sin

    start = torch.empty(heads, TOKENS, dim, dtype=torch.bfloat16, device="meta", requires_grad=True)
    forward, backward = _passes(rotated, heads * TOKENS * dim, start)
    assert WRITTEN_ROTARY[0] == pytest.approx(forward, abs=0.5)
    assert WRITTEN_ROTARY[1] == pytest.approx(backward, abs=0.5)
    assert ROTARY[0] < forward / 4


def _shard(**fields: Any) -> Shard:
    known, where = model("llama3-8b"), cluster("dgx-h100:1")
    assert isinstance(known, Transformer)
    recipe = Recipe(seq=2048, batch=8, **fields)
    return Shard(known, Layout(dp=8).grid(), recipe, Clock.of(where.device, recipe))


def test_a_gate_in_kernels_of_its_own() -> None:
    def gated(both: Any) -> Any:
        gate, up = both
        return torch.nn.functional.silu(gate) * up

    gate, up = (torch.empty(TOKENS, WIDTH, dtype=torch.bfloat16, device="meta", requires_grad=True) for _ in range(2))
    forward, backward = _passes(gated, TOKENS * WIDTH, (gate, up))
    fused, apart = (
        activation(_shard(fused_elementwise=fused), WIDTH, TOKENS, 1, True) for fused in (True, False)
    )  # fmt: skip
    scripted = activation(_shard(fused_elementwise=False, fused_gate=True), WIDTH, TOKENS, 1, True)
    assert float(apart.forward.stream_s / fused.forward.stream_s) == pytest.approx(forward / 3)
    assert float(apart.backward.stream_s / fused.backward.stream_s) == pytest.approx(backward / 5)
    assert scripted == fused


@pytest.mark.parametrize("narrow", ["fp8"])
def test_the_head_stays_in_half_precision(narrow: str) -> None:
    wide, found = (head_work(_shard(dtype=dtype)) for dtype in ("bf16", narrow))
    assert float(found.forward.matmul_s) == float(wide.forward.matmul_s)
    assert float(found.backward.matmul_s) == float(wide.backward.matmul_s)


def test_layernorm_is_one_kernel_whoever_writes_the_model() -> None:
    shard = _shard(fused_norms=False)
    plain = replace(shard, model=replace(shard.model, norm="layernorm"))
    fused = replace(shard, recipe=replace(shard.recipe, fused_norms=True))
    assert float(head_work(plain).forward.stream_s) == float(head_work(fused).forward.stream_s)
    assert float(head_work(shard).forward.stream_s) > float(head_work(fused).forward.stream_s)
