"""Passes around adapters, and over a quantised base that reads fp32, against the bytes that torch's operations move."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest

from lockstep.describe.hardware import cluster
from lockstep.describe.stacks import find_way, ways
from lockstep.describe.workload import DENSE, Adapters, Attention, Mlp, Transformer, kept_tensors, model, read_training
from lockstep.price.kernels.adapters import adapter_work
from lockstep.price.kernels.clock import MIXED, WIDENED, Clock
from lockstep.price.kernels.formats import wide_work
from lockstep.price.kernels.layer import added_first, of_parts
from lockstep.price.kernels.shard import Shard
from lockstep.price.kernels.slots import inner_work
from lockstep.price.kernels.sums import input_sums
from lockstep.price.layout import Layout, way
from lockstep.price.layout.kept import piece
from recipes import recipe_by

torch: Any = pytest.importorskip("torch", reason="needs torch")

from .test_passes import Moved  # noqa: E402

HALF = torch.bfloat16
TOKENS, DROPOUT = 4096, 0.1
WIDE_OPERANDS = {"fp32": ((1.0, 2.0), (1.0, 2.0))}
"""Of outputs and inputs, passes that products take longer as they read and write fp32, which are not seen here."""
SLOWER = 3.0 * (WIDENED - 1.0)
"""Passes that a copy to fp32 takes longer than its bytes."""
PRODUCTS = ("mm", "addmm", "bmm")


class Streams(Moved):
    """Bytes of all operations but products."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.overloadpacket.__name__ in PRODUCTS:
            return func(*args, **(kwargs or {}))
        return super().__torch_dispatch__(func, types, args, kwargs)


class Core(torch.autograd.Function):  # type: ignore[misc]
    """Attention that moves nothing."""

    @staticmethod
    def forward(ctx: Any, query: Any, key: Any, value: Any) -> Any:
        return query.view_as(query)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient, gradient, gradient


def dropped(tensor: Any, frac: float) -> Any:
    return torch.native_dropout(tensor, frac, True)[0] if frac else tensor


def beside(kind: str, given: Any, read: Any, both: tuple[Any, Any], frac: float) -> Any:
    """What PEFT's layer makes of what its frozen matrix `given` for `read`."""
    linear = torch.nn.functional.linear
    first, second = both
    if kind == "copied":
        given = given.clone()
    if kind in ("fp32", "autocast"):
        found = given + linear(linear(dropped(read.to(first.dtype), frac), first), second) * 2.0
        return found.to(given.dtype)
    return given + linear(linear(dropped(read, frac), first), second) * 2.0


class Fused(torch.autograd.Function):  # type: ignore[misc]
    """The fused adapter of fms-acceleration, as its code describes it."""

    @staticmethod
    def forward(ctx: Any, read: Any, matrix: Any, first: Any, second: Any, frac: float) -> Any:
        found = read @ matrix.t()
        kept = dropped(read, frac)
        found += (kept @ first.t().to(HALF)) @ (2.0 * second.t().to(HALF))
        ctx.save_for_backward(matrix, first, second, kept)
        ctx.frac = frac
        return found

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        matrix, first, second, kept = ctx.saved_tensors
        first_half, second_half = first.to(HALF), second.to(HALF)
        of_first = (gradient @ second_half).t() @ kept
        of_second = gradient.t() @ (kept @ first_half.t())
        found = gradient @ matrix
        more = (gradient @ second_half) @ (2.0 * first_half)
        found += (kept != 0) * more if ctx.frac else more
        return found, None, of_first, of_second, None


def moved(kind: str, inputs: int, outputs: int, frac: float) -> tuple[float, float]:
    """Passes per token of an adapter of rank one, forward and backward."""
    matrix, start = torch.zeros(outputs, inputs, dtype=HALF), torch.zeros(TOKENS, inputs, dtype=HALF)
    sides = (1, inputs), (outputs, 1)
    wide = HALF if kind == "half" else torch.float32
    both = tuple(torch.zeros(side, dtype=wide, requires_grad=True) for side in sides)
    start.requires_grad_(True)
    cast = kind in ("autocast", "copied", "quantised")
    with Streams() as there, torch.autocast("cpu", HALF) if cast else nullcontext():
        read = start.view_as(start)
        if kind == "fused":
            found = Fused.apply(read, matrix, *both, frac)
        else:
            found = beside(kind, torch.nn.functional.linear(read, matrix), read, both, frac)  # type: ignore[arg-type]
    gradient = torch.zeros_like(found)
    with Streams() as back:
        found.backward(gradient)
    return there.size_B / (2 * TOKENS), back.size_B / (2 * TOKENS)


@pytest.mark.parametrize("frac", [0.0, DROPOUT])
@pytest.mark.parametrize("kind", [*ways()["adapters"], "quantised"])
def test_adapter_traffic_matches_torch(kind: str, frac: float) -> None:
    """A wider input, or output, moves as many passes more as are counted. GPTQ's matrices are as in half precision."""
    counted, passes = find_way("adapters", "half" if kind == "quantised" else kind), (256, 256)
    plain, wider, taller = (moved(kind, *sides, frac) for sides in (passes, (512, 256), (256, 512)))
    unseen = WIDE_OPERANDS.get(kind, ((0.0, 0.0), (0.0, 0.0)))
    for side in (0, 1):
        inputs, dropout = (counted.parts[part].passes[side] for part in ("inputs", "dropout"))
        outputs = counted.passes[side] - unseen[0][side]
        assert (wider[side] - plain[side]) / 256 == pytest.approx(
            inputs + (dropout if frac else 0.0) - unseen[1][side], abs=0.02
        )
        assert (taller[side] - plain[side]) / 256 == pytest.approx(outputs, abs=0.02)


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ({}, "fp32"),
        ({"base": "nf4"}, "fp32"),
        ({"half_adapters": True}, "half"),
        ({"autocast": True, "half_adapters": True, "base": "nf4"}, "half"),
        ({"autocast": True}, "autocast"),
        ({"autocast": True, "base": "nf4"}, "copied"),
        ({"autocast": True, "base": "nf4-single"}, "copied"),
        ({"autocast": True, "base": "int8"}, "half"),
        ({"autocast": True, "base": "gptq"}, "half"),
        ({"autocast": True, "base": "nf4", "adapters": "fused"}, "fused"),
        ({"half_adapters": True, "adapters": "fused"}, "fused"),
    ],
)
def test_adapter_kernels_follow_the_recipe(words: dict[str, Any], name: str) -> None:
    recipe = recipe_by("hf-trainer", seq=1, batch=1, train="lora:r=8", **words)
    assert way(recipe, small(), "adapters").name == name


WIDTH, FFN = 32, 64


class Quantised(torch.nn.Module):  # type: ignore[misc]
    """A matrix of bitsandbytes, which converts what it reads, and what it gives to the format that it read."""

    def __init__(self, outputs: int, inputs: int, adapted: bool) -> None:
        super().__init__()
        self.matrix = torch.zeros(outputs, inputs, dtype=HALF)
        self.both = [torch.zeros(1, inputs), torch.zeros(outputs, 1)] if adapted else []
        for one in self.both:
            one.requires_grad_(True)

    def forward(self, read: Any) -> Any:
        given = torch.nn.functional.linear(read.to(HALF), self.matrix).to(read.dtype)
        return beside("copied", given, read, tuple(self.both), DROPOUT) if self.both else given  # type: ignore[arg-type]


def layer(stream: Any) -> Any:
    """A layer of transformers without rotary embedding, whose scales of norms are as wide as the stream."""
    query, key, value, out = (Quantised(WIDTH, WIDTH, True) for _ in range(4))
    gate, up, down = (Quantised(*sides, False) for sides in ((FFN, WIDTH), (FFN, WIDTH), (WIDTH, FFN)))

    def norm(read: Any) -> Any:
        wide = read.to(torch.float32)
        normed = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return torch.ones(WIDTH, dtype=stream.dtype) * normed.to(read.dtype)

    normed = norm(stream)
    given = Core.apply(*(one(normed).to(HALF) for one in (query, key, value)))
    stream = stream + out(given)
    normed = norm(stream)
    return stream + down(torch.nn.functional.silu(gate(normed)) * up(normed))


def small() -> Transformer:
    """The model of such layers."""
    return Transformer(
        name="small", layers=1, hidden=WIDTH, vocab=WIDTH, attention=Attention(heads=2, kv_heads=2, head_dim=16),
        mlp=Mlp(ffn=FFN), positions="learned", max_positions=TOKENS, norm="rmsnorm", tied_embeddings=False,
    )  # fmt: skip


def test_traffic_over_a_prepared_base_matches_torch() -> None:
    described = small()
    words = {"autocast": True, "base": "nf4", "train": f"lora:r=1,targets=attention,dropout={DROPOUT}"}
    recipe = recipe_by("hf-trainer", seq=TOKENS, batch=1, prepared_base=True, **words)
    shard = Shard(described, Layout().grid(), recipe, Clock.of(cluster("dgx-h100:1").device, recipe))
    adapters = read_training(words["train"]).adapters
    assert isinstance(adapters, Adapters)
    found = sum((both for _, both in added_first(shard, DENSE)), of_parts(shard, DENSE, "stream"))
    found += inner_work(shard, "gate", FFN * TOKENS)
    found += adapter_work(shard, adapters, DENSE) + wide_work(shard, DENSE)
    start = torch.zeros(TOKENS, WIDTH, requires_grad=True)
    with Streams() as there, torch.autocast("cpu", HALF):
        given = layer(start.view_as(start))
    gradient = torch.zeros_like(given)
    with Streams() as back:
        given.backward(gradient)
    per_pass_s = float(shard.clock.operations(2.0 * TOKENS * WIDTH).stream_s)
    # Copies to fp32: what the attention's and the block's products give, and gradients of what all products read; and
    # one sum of both formats.
    norm = find_way("norm", "written").parts["widened"]
    copies = (1 + 3 + 2 * FFN / WIDTH) * SLOWER + 5 * (MIXED - 1), (5 + 3 + FFN / WIDTH + 3) * SLOWER
    longer = [
        2.0 * sum(step.passes * (step.times - 1.0) for step in steps) + slow
        for steps, slow in zip((norm.forward, norm.backward), copies, strict=True)
    ]
    assert float(found.forward.stream_s) / per_pass_s == pytest.approx(
        there.size_B / (2.0 * TOKENS * WIDTH) + longer[0], rel=0.03
    )
    assert float(found.backward.stream_s) / per_pass_s == pytest.approx(
        back.size_B / (2.0 * TOKENS * WIDTH) + longer[1], rel=0.03
    )
    for other, layout in (
        ({"base": "gptq"}, Layout()), ({"prepared_base": False}, Layout()), ({}, Layout(dp=2, zero=3)),
    ):  # fmt: skip
        elsewhere = replace(shard, recipe=recipe.having(**other), grid=layout.grid())
        assert float(wide_work(elsewhere, DENSE).forward.stream_s) == 0.0


def test_extra_memory_of_a_prepared_base_matches_torch() -> None:
    """Stream and feed-forward block; what is kept of attention and for adapters is as narrow as without it."""

    def kept_B(dtype: Any) -> float:
        found: dict[int, int] = {}

        def keep(tensor: Any) -> Any:
            # Scales, weights and means of a row are not activations.
            if tensor.numel() >= TOKENS * WIDTH:
                found[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        start = torch.zeros(TOKENS, WIDTH, dtype=dtype, requires_grad=True)
        hooks = torch.autograd.graph.saved_tensors_hooks(keep, lambda one: one)
        with hooks, torch.autocast("cpu", HALF):
            given = layer(start)
        return sum(found.values()) / TOKENS * (given is not None)

    words = {"autocast": True, "base": "nf4", "train": f"lora:r=1,targets=attention,dropout={DROPOUT}"}
    described, grid = small(), Layout().grid()
    plain, wide = (
        sum(
            float(one.size_B)
            for one in kept_tensors(
                described, piece(recipe_by("hf-trainer", seq=1, batch=1, **words, **more), grid, described)
            )
        )
        for more in ({}, {"prepared_base": True})
    )
    assert wide - plain == pytest.approx(kept_B(torch.float32) - kept_B(HALF))


def test_gradients_of_shared_inputs_are_added() -> None:
    described = model("llama3-8b")
    assert isinstance(described, Transformer)

    def summed(readers: int) -> float:
        start = torch.zeros(TOKENS, WIDTH, dtype=HALF, requires_grad=True)
        read = start.view_as(start)
        given = [torch.nn.functional.linear(read, torch.zeros(WIDTH, WIDTH, dtype=HALF)) for _ in range(readers)]
        gradients = [torch.zeros_like(one) for one in given]
        with Streams() as back:
            torch.autograd.backward(given, gradients)
        return back.size_B / (2 * TOKENS * WIDTH)

    gate, passes = summed(2), summed(3) + summed(2)
    for recipe, layout, expected in (
        (recipe_by("hf-trainer", seq=TOKENS, batch=2), Layout(), passes),
        (recipe_by("hf-trainer", seq=TOKENS, batch=2, joint_qkv=True), Layout(), gate),
        (recipe_by("hf-trainer-5", seq=TOKENS, batch=2), Layout(), 2 * passes),
        (recipe_by("hf-trainer-5", seq=TOKENS, batch=2), Layout(dp=2, zero=3), passes),
        # Compiled, each gradient beyond the first of a block is read once more, at the rate of the compiler's kernels.
        (recipe_by("torchtitan", seq=TOKENS, batch=2), Layout(), 3 * 1.13 / 1.03),
    ):
        shard = Shard(described, layout.grid(), recipe, Clock.of(cluster("dgx-h100:1").device, recipe))
        per_pass_s = float(shard.clock.operations(2.0 * TOKENS * described.hidden).stream_s)
        found = input_sums(shard, described.kinds[0])
        assert float(found.backward.stream_s) / per_pass_s == pytest.approx(expected)
        assert float(found.forward.stream_s) == 0.0
