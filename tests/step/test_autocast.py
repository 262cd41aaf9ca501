"""What torch.autocast adds to a layer, against the bytes that torch's own operations move under it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lockstep.describe.hardware import cluster
from lockstep.describe.stacks import find_way
from lockstep.describe.workload import DENSE, Transformer, layer_operations, model
from lockstep.price.kernels.clock import MIXED, WIDENED, Clock
from lockstep.price.kernels.formats import input_casts
from lockstep.price.kernels.layer import added_first, of_parts
from lockstep.price.kernels.operations import operation_works
from lockstep.price.kernels.shard import Shard
from lockstep.price.kernels.slots import inner_work, slot_work, stream_work
from lockstep.price.kernels.states import PARAMETER_B, SUM_B
from lockstep.price.layout import Layout, Recipe
from recipes import recipe_by

torch: Any = pytest.importorskip("torch", reason="needs torch")
from .test_passes import Moved  # noqa: E402
from .test_written import HALF, WIDE, run  # noqa: E402

TOKENS, WIDTH = 4096, 16
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


class Block(torch.nn.Module):  # type: ignore[misc]
    """A layer of Llama as transformers writes it, all of one width."""

    def __init__(self) -> None:
        super().__init__()
        self.products = torch.nn.ModuleList(torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(7))
        self.scales = torch.nn.ParameterList(torch.ones(WIDTH) for _ in range(2))

    def norm(self, hidden: Any, which: int) -> Any:
        wide = hidden.to(torch.float32)
        variance = wide.pow(2).mean(-1, keepdim=True)
        return self.scales[which] * (wide * torch.rsqrt(variance + 1e-6)).to(hidden.dtype)

    def forward(self, hidden: Any) -> Any:
        query, key, value, out, gate, up, down = self.products
        normed = self.norm(hidden, 0)
        hidden = hidden + out(Core.apply(query(normed), key(normed), value(normed)))
        normed = self.norm(hidden, 1)
        return hidden + down(torch.nn.functional.silu(gate(normed)) * up(normed))


def moved(tokens: int) -> tuple[float, float]:
    """Bytes forward and backward."""
    block, start = Block(), torch.zeros(tokens, WIDTH, requires_grad=True)
    with Streams() as there, torch.autocast("cpu", torch.bfloat16):
        found = block(start)
    gradient = torch.ones_like(found)
    with Streams() as back:
        found.backward(gradient)
    return there.size_B, back.size_B


def test_traffic_of_a_layer_under_autocast_matches_torch() -> None:
    llama = model("llama3-8b")
    assert isinstance(llama, Transformer)
    described = replace(llama, positions="learned", max_positions=TOKENS)
    recipe = Recipe.by("hf-trainer-5", seq=TOKENS, batch=1)
    clock = Clock.of(cluster("dgx-h100:1").device, recipe)
    shard = Shard(described, Layout().grid(), recipe, clock)
    elements = TOKENS * described.hidden
    block = sum((both for _, both in added_first(shard, DENSE)), of_parts(shard, DENSE, "stream"))
    block += slot_work(shard, "gate", described.hidden * TOKENS)
    per_pass_s = float(clock.elementwise(2.0 * elements).stream_s)
    forward, backward = (size_B / (2.0 * TOKENS * WIDTH) for size_B in moved(TOKENS))
    # Beside norms: two sums of half precision and fp32, and gradients of what five products read brought to fp32.
    slow = 2 * 5.0 * (MIXED - 1.0), 5 * 3.0 * (WIDENED - 1.0)
    norms = [find_way(slot, "written").parts["widened"] for slot in ("norm", "norm_weight")]
    longer = [
        2.0 * sum(step.passes * (step.times - 1.0) for one in norms for step in (one.forward, one.backward)[side])
        + more
        for side, more in enumerate(slow)
    ]
    assert float(block.forward.stream_s) / per_pass_s == pytest.approx(forward + longer[0], rel=0.03)
    assert float(block.backward.stream_s) / per_pass_s == pytest.approx(backward + longer[1], rel=0.03)


def test_each_parameter_is_cast_and_its_gradient_widened() -> None:
    """With two tokens hardly anything else moves, but the gradients of weights, which products write."""
    parameters = 7 * WIDTH * WIDTH
    forward, _ = moved(2)
    assert forward / parameters == pytest.approx(PARAMETER_B, rel=0.4)
    assert PARAMETER_B == 4 + 2
    assert SUM_B == 3 * 4


def test_fsdp_and_frozen_models_are_in_half_precision() -> None:
    described = model("llama3-8b")
    assert isinstance(described, Transformer)
    for recipe, layout in (
        (Recipe.by("hf-trainer-5", seq=TOKENS, batch=8), Layout(dp=8, zero=3)),
        (Recipe.by("hf-trainer-5", seq=TOKENS, batch=8, train="lora:r=16,targets=all-linear"), Layout(dp=8)),
        (Recipe.by("hf-trainer", seq=TOKENS, batch=8), Layout(dp=8)),
    ):
        clock = Clock.of(cluster("dgx-h100:1").device, recipe)
        assert float(input_casts(Shard(described, layout.grid(), recipe, clock), DENSE).backward.stream_s) == 0.0


def test_a_way_without_a_row_for_fp32_moves_twice_its_bytes_in_as_many_kernels() -> None:
    """Of the stream under autocast; between products, which give half precision, it is as without."""
    described = model("llama3-8b")
    assert isinstance(described, Transformer)
    for layout, times in ((Layout(dp=8), 2.0), (Layout(dp=8, zero=3), 1.0)):
        recipe = recipe_by("hf-trainer-5", seq=TOKENS, batch=8, norm="one", gate="one")
        shard = Shard(described, layout.grid(), recipe, Clock.of(cluster("dgx-h100:1").device, recipe))
        plain = slot_work(shard, "norm", 1e6)
        found = stream_work(shard, "norm", 1e6)
        assert float(found.forward.stream_s) == pytest.approx(times * float(plain.forward.stream_s))
        assert float(found.backward.kernels) == float(plain.backward.kernels)
        assert float(inner_work(shard, "gate", 1e6).forward.stream_s) == float(
            slot_work(shard, "gate", 1e6).forward.stream_s
        )


def test_fp32_norms_and_rotary_embedding_take_the_steps_of_torch() -> None:
    """LlamaRMSNorm of a stream in fp32, and apply_rotary_pos_emb of half precision with cosines in the stream's format.

    torch.autocast casts none of their operations to half (aten/src/ATen/autocast_mode.h), so that formats are promoted.
    """
    rows, heads, dim = 512, 32, 64

    def empty(*shape: int, dtype: Any = WIDE, gradient: bool = True) -> Any:
        return torch.empty(*shape, dtype=dtype, device="meta", requires_grad=gradient)

    weight, (cos, sin) = empty(dim * heads), (empty(rows, dim, gradient=False) for _ in range(2))

    def norm(hidden: Any) -> Any:
        wide = hidden.to(WIDE)
        return weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(hidden.dtype)

    def turned(queries: Any) -> Any:
        half = torch.cat((-queries[..., dim // 2 :], queries[..., : dim // 2]), dim=-1)
        return queries * cos + half * sin

    parts = {slot: find_way(slot, "written").parts for slot in ("norm", "norm_weight", "rotary")}
    written = parts["norm"]["widened"], parts["norm_weight"]["widened"]
    for made, start, ways in (
        (norm, empty(rows, heads * dim), written),
        (turned, empty(heads, rows, dim, dtype=HALF), (parts["rotary"]["mixed"],)),
    ):
        moved_B, kernels, _ = run(made, start)
        for side in (0, 1):
            passes = sum(one.passes[side] for one in ways)
            assert passes == pytest.approx(moved_B[side] / (2 * rows * heads * dim), rel=0.05), (made, side)
        # Queries and keys are turned apart; zeros for a slice's gradient are filled by a kernel of their own.
        found = (2 * kernels[0], 2 * (kernels[1] + 2)) if made is turned else kernels
        assert tuple(sum(one.kernels[side] for one in ways) for side in (0, 1)) == found


def test_partially_rotated_heads_promote_the_rest() -> None:
    """apply_rotary_pos_emb of GPT-NeoX in transformers, a quarter of each head."""
    rows, heads, dim, part = 512, 32, 64, 16
    cos, sin = (torch.empty(rows, part, dtype=WIDE, device="meta") for _ in range(2))

    def turned(queries: Any) -> Any:
        first, rest = queries[..., :part], queries[..., part:]
        half = torch.cat((-first[..., part // 2 :], first[..., : part // 2]), dim=-1)
        return torch.cat([first * cos + half * sin, rest], dim=-1)

    moved_B, _, _ = run(turned, torch.empty(heads, rows, dim, dtype=HALF, device="meta", requires_grad=True))
    mixed = find_way("rotary", "written").parts["mixed"]
    for side in (0, 1):
        joined, rest = (mixed.parts[name].passes[side] for name in ("joined", "rest"))
        passes = (mixed.passes[side] + joined) * part / dim + rest * (1 - part / dim)
        assert passes == pytest.approx(moved_B[side] / (2 * rows * heads * dim), rel=0.05)
    llama = model("llama3-8b")
    assert isinstance(llama, Transformer)
    shard = Shard(
        llama, Layout().grid(), recipe := Recipe.by("hf-trainer-5", seq=1, batch=1),
        Clock.of(cluster("dgx-h100:1").device, recipe),
    )  # fmt: skip
    whole, quarter = (inner_work(shard, "rotary", 1e6, share=share).forward.stream_s for share in (1.0, 0.25))
    assert 0.25 * float(whole) < float(quarter) < float(whole)


def test_normalised_queries_and_keys_are_rotated_in_fp32() -> None:
    """Qwen3RMSNorm gives the format of its weight under autocast, and its rotary embedding is then of fp32 alone."""
    described = model("qwen3-1.7b")
    assert isinstance(described, Transformer)
    bare = replace(described, attention=replace(described.attention, qk_norm="none"))
    recipe, found = Recipe.by("hf-trainer-5", seq=TOKENS, batch=1), []
    for one in (bare, described):
        shard = Shard(one, Layout().grid(), recipe, Clock.of(cluster("dgx-h100:1").device, recipe))
        operations = [operation for operation in layer_operations(one, DENSE) if operation.does == "rotary"]
        found += [float(work.forward.stream_s) for _, work in operation_works(shard, operations)]
    parts = find_way("rotary", "written").parts
    passes = [sum(step.passes * step.times for step in parts[name].forward) for name in ("mixed", "widened")]
    assert found[1] / found[0] == pytest.approx(passes[1] / passes[0])
