"""Copies between products and the kernel of attention, against those of torch's own operations.

The programs around the kernel were written from what the sources named in `price/kernels/copies.py` do, with a kernel
that moves nothing in its place; `Moved` counts what the rest moves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lockstep.describe.hardware import cluster
from lockstep.describe.stacks import ways
from lockstep.describe.workload import DENSE, Transformer, model
from lockstep.price.kernels.clock import Clock
from lockstep.price.kernels.copies import copied_heads, returned_s
from lockstep.price.kernels.shard import Shard
from lockstep.price.kernels.slots import slot_work
from lockstep.price.kernels.sums import tensors
from lockstep.price.layout import Layout
from recipes import counted, head_passes, recipe_by

torch: Any = pytest.importorskip("torch", reason="needs torch")

from .test_passes import HALF_B, Moved  # noqa: E402

SEQ, NUMBER, HEAD = 64, 4, 32
WIDTH = NUMBER * HEAD
JOINED, JOINED_HALVES = 6.0, 4.0
"""Passes of one width that join the gradients of queries, keys and values, which the projections count."""
ROTATED_FRAC = 0.25


class Kernel(torch.autograd.Function):  # type: ignore[misc]
    """Attention that moves nothing: what comes out and its gradients are new tensors of the kernel's shapes."""

    @staticmethod
    def forward(ctx: Any, *given: Any) -> Any:
        ctx.shapes = [one.shape for one in given]
        return torch.empty(given[0].shape[0], NUMBER, HEAD, dtype=torch.bfloat16, device="meta")

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        assert gradient.is_contiguous()
        made = tuple(torch.empty(shape, dtype=torch.bfloat16, device="meta") for shape in ctx.shapes)
        return made if len(made) > 1 else made[0]


class Output(torch.autograd.Function):  # type: ignore[misc]
    """What nanotron's row-parallel product does with what it reads, kept as it comes: a copy for either of its products
    (_RowLinearAsyncCommunication)."""

    @staticmethod
    def forward(ctx: Any, given: Any) -> Any:
        ctx.save_for_backward(given)
        return given.contiguous()

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        ctx.saved_tensors[0].contiguous()
        return gradient


def permuted(made: Any) -> Any:
    """nanotron's, of what the product made: [s, b, 3 heads head] to [s, b, heads head]."""
    seq, samples, _ = made.shape
    query, key, value = made.view(seq, samples, 3, NUMBER, HEAD).permute(2, 1, 0, 3, 4).contiguous()
    both = torch.cat([key.unsqueeze(0), value.unsqueeze(0)], dim=0).permute(1, 2, 0, 3, 4).contiguous()
    key, value = torch.split(both, 1, dim=2)
    flat = (one.reshape(samples * seq, NUMBER, HEAD) for one in (query, key, value))
    found = Kernel.apply(*flat)
    return Output.apply(found.view(samples, seq, WIDTH).transpose(0, 1))


def packed(made: Any) -> Any:
    """GPT-NeoX's, the same: the part that is rotated is left as it is."""
    seq, samples, _ = made.shape
    query, key, value = torch.split(made.view(seq, samples, NUMBER, 3 * HEAD), HEAD, dim=-1)
    cut = int(ROTATED_FRAC * HEAD)
    query, key = (torch.cat((one[..., :cut], one[..., cut:]), dim=-1) for one in (query, key))
    flat = [one.transpose(0, 1).reshape(samples * seq, 1, NUMBER, HEAD) for one in (query, key, value)]
    found = Kernel.apply(torch.concat(flat, dim=1))
    turned = found.view(samples, seq, NUMBER, HEAD).transpose(1, 2).permute(2, 0, 1, 3).contiguous()
    return turned.view(seq, samples, WIDTH)


class Copied(Moved):  # type: ignore[misc]
    """Bytes that copies move, without new tensors of the kernel. Slices' gradients are filled, then copied."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        before_B, name = self.size_B, func.overloadpacket.__name__
        found = super().__torch_dispatch__(func, types, args, kwargs)
        if name in ("empty", "empty_like"):
            self.size_B = before_B
        elif name == "slice_backward":
            self.size_B += HALF_B * args[0].numel()
        return found


def _moved(program: Callable[[Any], Any], samples: int) -> tuple[float, float]:
    """Passes over one width, forward and backward."""
    made = torch.empty(SEQ, samples, 3 * WIDTH, dtype=torch.bfloat16, device="meta", requires_grad=True)
    with Copied() as there:
        found = program(made)
    with Copied() as back:
        found.backward(torch.empty_like(found))
    each_B = HALF_B * SEQ * samples * WIDTH
    return there.size_B / each_B, back.size_B / each_B


@pytest.mark.parametrize("samples", [1, 2, 4])
@pytest.mark.parametrize(("kind", "program"), [("gpt-neox", packed), ("nanotron", permuted)])
def test_copies_of_heads_match_torch(kind: str, program: Callable[[Any], Any], samples: int) -> None:
    forward, backward = head_passes(kind, samples)
    assert (forward, backward + JOINED) == pytest.approx(_moved(program, samples))


def _shard(heads: str, **fields: Any) -> Shard:
    known, where = model("llama3-8b"), cluster("dgx-h100:1")
    assert isinstance(known, Transformer)
    recipe = recipe_by(seq=2048, batch=8, heads=heads, fused_elementwise=False, **fields)
    return Shard(known, Layout(dp=8).grid(), recipe, Clock.of(where.device, recipe))


@pytest.mark.parametrize("kind", ["gpt-neox", "nanotron"])
def test_copies_are_divided_like_heads(kind: str) -> None:
    whole, half = (copied_heads(_shard(kind), width, width / 4) for width in (WIDTH, WIDTH / 2))
    assert float(whole.forward.stream_s) == pytest.approx(2 * float(half.forward.stream_s))
    assert float(whole.backward.stream_s) == pytest.approx(2 * float(half.backward.stream_s))


@pytest.mark.parametrize("samples", [1, 4])
@pytest.mark.parametrize("kind", ["gpt-neox", "nanotron"])
def test_kernels_over_transposed_tensors_take_longer_than_their_bytes(kind: str, samples: int) -> None:
    shard = _shard(kind)
    shard = replace(shard, grid=Layout(dp=8, micro_batch=samples).grid())
    found = copied_heads(shard, WIDTH, WIDTH)
    pass_s = float(shard.clock.stream(shard.tokens * WIDTH * HALF_B).stream_s)
    sides = zip((found.forward, found.backward), head_passes(kind, samples), ways()["heads"][kind].takes, strict=True)
    for work, passes, takes in sides:
        assert float(work.stream_s) == pytest.approx(takes * passes * pass_s)
        assert takes > 1.0


def test_stacks_without_head_copies_copy_nothing() -> None:
    found = copied_heads(_shard("inside"), WIDTH, WIDTH)
    assert float(found.forward.device_s + found.backward.device_s) == 0.0


def test_zero_1_gathers_of_nanotron_are_copied_per_tensor_and_rank() -> None:
    """As often as `all_gather_coalesced` of nanotron copies, which the host launches one by one; nothing without it."""
    shard = _shard("nanotron", copied_gathers=True)
    grids = {ranks: Layout(dp=ranks, zero=1).grid() for ranks in (8, 16)}
    found = {ranks: float(returned_s(shard.clock, grid, shard.recipe, 32)) for ranks, grid in grids.items()}
    assert found[16] == pytest.approx(2 * found[8])
    layer = sum(one.name not in ("key", "value", "gate") for one in tensors(shard, DENSE))
    assert found[8] == pytest.approx(8 * 32 * layer * shard.clock.launches_s[1])
    assert not returned_s(shard.clock, Layout(dp=8).grid(), shard.recipe, 32)
    assert not returned_s(shard.clock, grids[8], _shard("nanotron").recipe, 32)


def gate(made: Any) -> Any:
    """nanotron's, over halves of what one product made (GLUActivation)."""
    half, other = torch.split(made, made.shape[-1] // 2, dim=-1)
    return torch.nn.functional.silu(half) * other


def test_a_gate_over_halves_joins_their_gradients() -> None:
    """Beside the passes of a gate over two tensors, of which kernels over halves take more than their bytes."""
    made = torch.empty(SEQ, 2 * WIDTH, dtype=torch.bfloat16, device="meta", requires_grad=True)
    with Moved() as there:
        found = gate(made)
    gradient = torch.empty_like(found)
    with Moved() as back:
        found.backward(gradient)
    each_B = HALF_B * SEQ * WIDTH
    shard = _shard("nanotron", gate="halves")
    cut, whole = slot_work(shard, "gate", WIDTH * SEQ), counted("gate", "apart")
    assert (there.size_B / each_B, back.size_B / each_B) == (whole[0], whole[1] + JOINED_HALVES)
    pass_s = float(shard.clock.operations(each_B).stream_s)
    passes = [float(one.stream_s) / pass_s for one in (cut.forward, cut.backward)]
    assert passes == pytest.approx(counted("gate", "halves")[:2])
    assert float(cut.backward.kernels) == whole[3] + 1
