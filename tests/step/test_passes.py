"""Passes over memory of losses, norms and rotary embedding, against those of torch's own operations.

A dispatch mode sees every operation that torch runs, forward and backward, and adds up the bytes of its operands: an
oracle for the counts, which were made by hand from the same programs. Tensors are on the device `meta`: sizes alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lockstep.check.validation.case import gpt, read_rows
from lockstep.describe.hardware import cluster
from lockstep.describe.stacks import find_way
from lockstep.describe.workload import DENSE, Attention, Transformer, model
from lockstep.price.kernels.clock import Clock
from lockstep.price.kernels.layer import head_work, layer_work
from lockstep.price.kernels.scores import DROPOUT, score_work
from lockstep.price.kernels.shard import Shard
from lockstep.price.kernels.slots import slot_work
from lockstep.price.kernels.states import MIXED, states_work, table_work
from lockstep.price.kernels.sums import bias_sums
from lockstep.price.layout import Layout
from recipes import counted, norm_written, recipe_by

torch: Any = pytest.importorskip("torch", reason="needs torch")
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

HALF_B = 2
NORM, SPLIT_NORM, WRITTEN_NORM = counted("norm", "one"), counted("norm", "split"), norm_written()
ROTARY, WRITTEN_ROTARY, COMPLEX_ROTARY = (counted("rotary", name) for name in ("one", "written", "complex"))
ONE_KERNEL, CAUSAL, SEVERAL = (counted("scores", name) for name in ("kernel", "causal", "several"))
TAKES = find_way("scores", "several").takes
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
    "permute",
    "unbind",
    "split",
    "view_as_complex",
    "view_as_real",
    "_conj",
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


def test_megatrons_in_place_loss_matches_torch() -> None:
    target = torch.empty(TOKENS, dtype=torch.int64, device="meta")
    forward, backward = _passes(lambda logits: InPlace.apply(logits, target), TOKENS * WIDTH, _logits())
    assert find_way("loss", "in-place").passes == pytest.approx((forward, backward), abs=0.1)


def test_bigsciences_loss_is_that_of_megatron_on_a_copy() -> None:
    target = torch.empty(TOKENS, dtype=torch.int64, device="meta")

    class Copied(InPlace):
        """The same on a clone of the fp32 logits."""

        @staticmethod
        def forward(ctx: Any, logits: Any, target: Any) -> Any:
            return InPlace.forward(ctx, logits.float().clone(), target)

    forward, backward = _passes(lambda logits: Copied.apply(logits, target), TOKENS * WIDTH, _logits())
    assert find_way("loss", "copied").passes == pytest.approx((forward, backward), abs=0.1)


def test_the_unfused_loss_matches_torch() -> None:
    target = torch.empty(TOKENS, dtype=torch.int64, device="meta")

    def loss(logits: Any) -> Any:
        return torch.nn.functional.cross_entropy(logits.float(), target, reduction="none")

    forward, backward = _passes(loss, TOKENS * WIDTH, _logits())
    # The gather and scatter of one logit per token are counted in full here, and touch next to nothing.
    assert find_way("loss", "eager").passes[0] == pytest.approx(forward - 2, abs=0.2)
    assert find_way("loss", "eager").passes[1] == pytest.approx(backward - 2, abs=0.2)


def test_rmsnorm_of_transformers_matches_torch() -> None:
    weight = torch.empty(WIDTH, dtype=torch.bfloat16, device="meta", requires_grad=True)

    def norm(hidden: Any) -> Any:
        wide = hidden.to(torch.float32)
        variance = wide.pow(2).mean(-1, keepdim=True)
        return weight * (wide * torch.rsqrt(variance + 1e-6)).to(torch.bfloat16)

    forward, backward = _passes(norm, TOKENS * WIDTH, _logits())
    assert WRITTEN_NORM[0] == pytest.approx(forward, abs=0.2)
    assert WRITTEN_NORM[1] == pytest.approx(backward, abs=0.2)
    assert NORM[0] < forward / 5


def test_rotary_embedding_of_transformers_matches_torch() -> None:
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


def test_the_unfused_softmax_of_scores_matches_torch() -> None:
    """Megatron's operations, and where they take its kernel's place: unless sequences times heads divide by four."""
    mask = torch.empty(TOKENS, TOKENS, dtype=torch.bool, device="meta")

    def softened(scores: Any) -> Any:
        return torch.softmax((scores.float() * 2.0).masked_fill_(mask, -10000.0), dim=-1).to(torch.bfloat16)

    start = torch.empty(2, TOKENS, TOKENS, dtype=torch.bfloat16, device="meta", requires_grad=True)
    forward, backward = _passes(softened, 2 * TOKENS * TOKENS, start)
    assert SEVERAL[0] == pytest.approx(forward, rel=0.06)
    # Out of place, as in its gradient, masked_fill copies and then fills in place: unseen here, another 4.
    assert SEVERAL[1] == pytest.approx(backward + 4, rel=0.06)
    shard = _gpt("fsdp-eager", flash_attention=False, dropout=True)
    for causal, kernel in ((False, ONE_KERNEL), (True, CAUSAL)):
        several, one = (score_work(shard, count, 1e9, causal) for count in (6.0, 8.0))
        for way, place in (("forward", 0), ("backward", 1)):
            ratio = float(getattr(several, way).stream_s) / float(getattr(one, way).stream_s)
            assert ratio == pytest.approx((SEVERAL[place] * TAKES[place] + DROPOUT) / (kernel[place] + DROPOUT))


def test_a_causal_softmax_reads_only_unmasked_scores() -> None:
    """Reads fall by half, writes stay: of the score forward, of the gradient and of the softmax backward."""
    assert (ONE_KERNEL[0] - CAUSAL[0], ONE_KERNEL[1] - CAUSAL[1]) == (0.5, 2 * 0.5)


def _shard(**fields: Any) -> Shard:
    known, where = model("llama3-8b"), cluster("dgx-h100:1")
    assert isinstance(known, Transformer)
    recipe = recipe_by(seq=2048, batch=8, **fields)
    return Shard(known, Layout(dp=8).grid(), recipe, Clock.of(where.device, recipe))


def test_an_unfused_gate_matches_torch() -> None:
    def gated(both: Any) -> Any:
        gate, up = both
        return torch.nn.functional.silu(gate) * up

    gate, up = (torch.empty(TOKENS, WIDTH, dtype=torch.bfloat16, device="meta", requires_grad=True) for _ in range(2))
    forward, backward = _passes(gated, TOKENS * WIDTH, (gate, up))
    fused, apart = (
        slot_work(_shard(fused_elementwise=fused), "gate", WIDTH * TOKENS) for fused in (True, False)
    )  # fmt: skip
    scripted = slot_work(_shard(fused_elementwise=False, gate="one"), "gate", WIDTH * TOKENS)
    assert float(apart.forward.stream_s / fused.forward.stream_s) == pytest.approx(forward / 3)
    assert float(apart.backward.stream_s / fused.backward.stream_s) == pytest.approx(backward / 5)
    assert scripted == fused


@pytest.mark.parametrize("narrow", ["fp8"])
def test_the_head_stays_in_half_precision(narrow: str) -> None:
    wide, found = (head_work(_shard(dtype=dtype)) for dtype in ("bf16", narrow))
    assert float(found.forward.matmul_s) == float(wide.forward.matmul_s)
    assert float(found.backward.matmul_s) == float(wide.backward.matmul_s)


def _beyond(forward: Callable[[Any], Any], without: Callable[[Any], Any]) -> tuple[float, float]:
    """Passes that one function makes more than another."""
    both = (_passes(one, TOKENS * WIDTH, _logits()) for one in (forward, without))
    more, less = both
    return more[0] - less[0], more[1] - less[1]


def test_gradients_added_in_the_residual_stream_match_torch() -> None:
    gelu = torch.nn.functional.gelu
    forward, backward = _beyond(lambda x: x + gelu(x), gelu)
    shard = _shard()
    unit_s = float(shard.elementwise(shard.loose_tokens * shard.model.hidden, 1.0, 1.0).forward.stream_s)
    apart, inside = (
        slot_work(one, "residual", shard.loose_tokens * shard.model.hidden)
        for one in (shard, replace(shard, recipe=shard.recipe.having(residual="inside")))
    )
    assert float(apart.forward.stream_s) / unit_s == pytest.approx(2 * forward)
    assert float(apart.backward.stream_s) / unit_s == pytest.approx(2 * backward)
    assert float(inside.backward.stream_s) / unit_s == pytest.approx(2 * (backward - 2))


def test_gradients_of_biases_read_the_incoming_gradient() -> None:
    def weights() -> Any:
        return torch.empty(WIDTH, WIDTH, dtype=torch.bfloat16, device="meta", requires_grad=True)

    first, second = weights(), weights()
    bias = torch.empty(WIDTH, dtype=torch.bfloat16, device="meta", requires_grad=True)
    linear = torch.nn.functional.linear
    _, backward = _beyond(lambda x: linear(x, first, bias), lambda x: linear(x, second))
    shard = _gpt()
    unit_s = float(shard.elementwise(shard.tokens * shard.model.hidden, 1.0, 1.0).forward.stream_s)
    # Queries, keys and values are 3 hidden wide, the output 1, the block 4 and 1.
    assert float(bias_sums(shard, DENSE).backward.stream_s) / unit_s == pytest.approx(9 * backward, rel=0.01)
    assert float(bias_sums(_shard(), DENSE).backward.stream_s) == 0.0


def _gpt(stack: str = "megatron-deepspeed", **fields: Any) -> Shard:
    where = cluster("dgx-a100-80gb:1")
    recipe = recipe_by(stack, seq=1024, batch=8, dtype="fp16", **fields)
    return Shard(gpt("345M", 24, 1024, 16, 1024), Layout(dp=8).grid(), recipe, Clock.of(where.device, recipe))


class Launched(TorchDispatchMode):  # type: ignore[misc]
    """Operations that launch a kernel, those of a norm's backward pass as often as it does."""

    def __init__(self) -> None:
        super().__init__()
        self.kernels = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        silent = (*VIEWS, "permute", "split", "empty", "empty_like", "new_empty")
        self.kernels += 0 if name in silent else SPLIT_NORM[3] if name == "native_layer_norm_backward" else 1
        return func(*args, **(kwargs or {}))


class Fused(torch.autograd.Function):  # type: ignore[misc]
    """An elementwise kernel in either pass, with a bias whose gradient autograd sums."""

    @staticmethod
    def forward(ctx: Any, given: Any, bias: Any) -> Any:
        ctx.save_for_backward(given)
        return torch.ops.aten.gelu(given)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        (given,) = ctx.saved_tensors
        found = torch.ops.aten.gelu_backward(gradient, given)
        return found, found.sum(dim=(0, 1))


def test_launches_of_a_megatron_layer_match_a_count_by_hand() -> None:
    length, batch, hidden, heads = 64, 2, 32, 4

    def weight(*shape: int) -> Any:
        found = torch.nn.Parameter(torch.empty(*shape, dtype=torch.float16, device="meta"))
        found.grad = torch.empty_like(found)
        return found

    norms = [(weight(hidden), weight(hidden)) for _ in range(2)]
    joint, out, up, down = (weight(n * hidden, k * hidden) for n, k in ((3, 1), (1, 1), (4, 1), (1, 4)))
    joint_bias, out_bias, up_bias, down_bias = (weight(n * hidden) for n in (3, 1, 4, 1))
    linear, norm = torch.nn.functional.linear, torch.nn.functional.layer_norm

    def layer(stream: Any) -> Any:
        mixed = linear(norm(stream, (hidden,), *norms[0]), joint, joint_bias).view(length, batch, heads, -1)
        query, key, value = torch.split(mixed, hidden // heads, dim=-1)
        rows = [one.reshape(length, batch * heads, -1).transpose(0, 1) for one in (query, key, value)]
        scores = torch.bmm(rows[0], rows[1].transpose(1, 2))
        kept = torch.ops.aten.native_dropout(torch.softmax(scores, -1), 0.1, True)[0]
        context = torch.bmm(kept, rows[2]).transpose(0, 1).contiguous().view(length, batch, hidden)
        stream = stream + Fused.apply(linear(context, out), out_bias)
        inner = Fused.apply(linear(norm(stream, (hidden,), *norms[1]), up), up_bias)
        return stream + Fused.apply(linear(inner, down), down_bias)

    start = torch.empty(length, batch, hidden, dtype=torch.float16, device="meta", requires_grad=True)
    with Launched() as there:
        found = layer(start)
    with Launched() as back:
        found.backward(torch.empty_like(found))
    shard = _gpt()
    work, states = layer_work(shard, DENSE), states_work(shard, DENSE, 1e6)
    # Dropout, bias and residual are one kernel forward there.
    assert float(work.forward.kernels) == there.kernels - 2
    assert float(work.backward.kernels + states.backward.kernels) == pytest.approx(back.kernels, rel=0.1)


def test_norms_in_two_kernels_take_as_much_longer_as_published() -> None:
    """Backward passes of RMSNorm of H200, torch.compile beside cuDNN: rates count the same bytes."""
    rates: dict[str, dict[str, float]] = {"torch_compile": {}, "cuDNN": {}}
    for row in read_rows("memory_bound_kernels.csv"):
        large = row["rows"] and row["cols"] and int(row["rows"]) * int(row["cols"]) >= 2**24
        if row["op"] == "rms_norm" and row["pass"] == "bwd" and row["library"] in rates and large:
            rates[row["library"]][f"{row['rows']} {row['cols']} {row['dtype']}"] = float(row["time_us"])
    ratios = [time / rates["cuDNN"][shape] for shape, time in rates["torch_compile"].items() if shape in rates["cuDNN"]]
    assert len(ratios) >= 3
    assert sorted(ratios)[len(ratios) // 2] == pytest.approx(SPLIT_NORM[1] / NORM[1], rel=0.25)


def test_norms_of_queries_and_keys_are_priced() -> None:
    plain = _shard()
    attention = replace(plain.model.attention, qk_norm="head")
    assert isinstance(attention, Attention)
    normed = replace(plain, model=replace(plain.model, attention=attention))
    unit_s = float(plain.elementwise(plain.tokens * (4096 + 1024), 1.0, 1.0).forward.stream_s)
    for way, passes in (("forward", NORM[0]), ("backward", NORM[1])):
        more_s = getattr(layer_work(normed, DENSE), way).stream_s - getattr(layer_work(plain, DENSE), way).stream_s
        assert float(more_s) / unit_s == pytest.approx(passes)


def test_layernorm_is_that_of_torch_where_rmsnorm_is_written_out() -> None:
    shard = _shard(norm="written", norm_weight="written")
    plain = replace(shard, model=replace(shard.model, norm="layernorm"))
    split = replace(shard, recipe=shard.recipe.having(norm="split", norm_weight="one"))
    assert head_work(plain) == head_work(split)
    assert float(head_work(shard).forward.stream_s) > float(head_work(split).forward.stream_s)


def test_rotary_embedding_with_complex_numbers_matches_torch() -> None:
    """As torchtitan writes it, of 64 pairs a head."""
    angles = torch.empty(TOKENS, 1, 64, dtype=torch.complex64, device="meta")

    def turned(heads: Any) -> Any:
        pairs = torch.view_as_complex(heads.float().reshape(TOKENS, WIDTH // 128, 64, 2))
        return torch.view_as_real(pairs * angles).flatten(2).type_as(heads)

    heads = torch.empty(TOKENS, WIDTH // 128, 128, dtype=torch.bfloat16, device="meta", requires_grad=True)
    found = _passes(turned, TOKENS * WIDTH, heads)
    assert COMPLEX_ROTARY[:2] == pytest.approx(found, abs=0.3)
    fused, apart = (
        slot_work(_shard(rotary=way, stack="llama3"), "rotary", TOKENS * WIDTH) for way in ("one", "complex")
    )
    assert float(apart.forward.stream_s / fused.forward.stream_s) == pytest.approx(COMPLEX_ROTARY[0] / ROTARY[0])


def _lookup(tokens: int, vocab: int) -> float:
    """Bytes that torch moves for the gradient of a table that tokens are looked up in, its sum in fp32 included."""
    table = torch.empty(vocab, WIDTH, dtype=torch.bfloat16, device="meta", requires_grad=True)
    total = torch.empty(vocab, WIDTH, dtype=torch.float32, device="meta")
    found = torch.nn.functional.embedding(torch.empty(tokens, dtype=torch.int32, device="meta"), table)
    with Moved() as back:
        (gradient,) = torch.autograd.grad(found, table, torch.empty_like(found))
        total += gradient
    return back.size_B


@pytest.mark.parametrize("tp", [1, 4])
def test_embedding_gradients_are_dense_and_accumulated_separately(tp: int) -> None:
    """What is there however few tokens there are; inside products where those of layers are added there."""
    known, where = model("llama3-8b"), cluster("dgx-h100:1")
    assert isinstance(known, Transformer)
    found = {}
    for fused in (False, True):
        recipe = recipe_by(seq=2048, batch=8, fused_accumulation=fused)
        shard = Shard(known, Layout(dp=8 // tp, tp=tp).grid(), recipe, Clock.of(where.device, recipe))
        for looked_up in (False, True):
            work = table_work(shard, tp, looked_up)
            assert not float(work.forward.device_s)
            found[fused, looked_up] = float(work.backward.stream_s)
    each_s = float(shard.clock.stream(known.vocab / tp * known.hidden).stream_s)
    more_B = (_lookup(1, 2 * WIDTH) - _lookup(1, WIDTH)) / WIDTH**2
    filled_B = found[False, True] / each_s - found[False, False] / each_s
    assert filled_B == pytest.approx(HALF_B)
    assert found[False, False] / each_s == pytest.approx(MIXED * (more_B - filled_B))
    assert found[True, True] == found[True, False] == 0.0
