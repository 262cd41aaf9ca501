"""What a loop over the experts of a rank does to all its rows, against the bytes of torch's own operations.

Programs are Megatron Core's, on the device `meta`: a dispatch mode adds up what every operation reads and writes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lockstep.check.validation.expert_layers import WEIGHTED
from lockstep.describe.hardware import cluster
from lockstep.describe.stacks import find_way
from lockstep.describe.workload import Attention, Experts, Rotary, Transformer, model
from lockstep.price.kernels.attention import attention_core
from lockstep.price.kernels.clock import OPERATIONS, Clock
from lockstep.price.kernels.experts import clamped
from lockstep.price.kernels.layer import expert_work
from lockstep.price.kernels.shard import Passes, Shard
from lockstep.price.kernels.slots import slot_work
from lockstep.price.layout import Layout
from recipes import counted, recipe_by

torch: Any = pytest.importorskip("torch", reason="needs torch")
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

LOOPED = find_way("experts", "looped").parts
BIASED = [LOOPED["biases"].passes[side] + LOOPED["biased"].passes[side] for side in (0, 1)]
CLAMPED = LOOPED["clamped"].passes
"""Passes over what comes out of experts with biases, and over gate and up, forward and backward."""
ROWS, HIDDEN, WAYS = 4096, 1024, 4
HALF: Any = {"device": "meta", "dtype": torch.bfloat16}
VIEWS = (
    "view",
    "split",
    "split_with_sizes",
    "slice",
    "as_strided",
    "detach",
    "transpose",
    "new_empty_strided",
    "expand",
)


class Moved(TorchDispatchMode):  # type: ignore[misc]
    """Passes over all rows in half precision, and kernels, of the operations within."""

    def __init__(self) -> None:
        super().__init__()
        self.passes, self.kernels = 0.0, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if name in VIEWS:
            return found
        given = [one for one in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor)]
        made, read = _passes(found), sum(map(_passes, given))
        if name == "copy_":
            read = _passes(args[1])
        if name == "zeros_like":
            read = 0.0
        if name == "slice_backward":
            read = 2 * read
        self.passes += made + read
        self.kernels += 1 + (name == "slice_backward")
        return found


def _passes(tensor: Any) -> float:
    """Of a tensor, an expanded dimension of which has one element."""
    elements = np.prod([size if stride else 1 for size, stride in zip(tensor.shape, tensor.stride(), strict=True)])
    return float(elements * tensor.element_size() / (2 * ROWS * HIDDEN))


def measured(program: Callable[[Any], Any], width: int = HIDDEN) -> tuple[Moved, Moved]:
    """Forward and backward of a program over rows."""
    rows = torch.empty(ROWS, width, **HALF, requires_grad=True)
    return moved(lambda: program(rows), [rows])


def moved(program: Callable[[], Any], given: list[Any]) -> tuple[Moved, Moved]:
    """Forward and backward of a program that reads tensors."""
    with Moved() as there:
        found = program()
    gradient = torch.empty_like(found)
    with Moved() as back:
        torch.autograd.grad(found, given, gradient)
    return there, back


def shard(ep: int = 8, tp: int = 1, name: str = "gpt-oss-120b", **fields: Any) -> Shard:
    """A rank of a model with experts."""
    found, where = model(name), cluster("dgx-h100:1")
    assert isinstance(found, Transformer)
    recipe = recipe_by(seq=4096, batch=8, **{"experts": "looped", **fields})
    layout = Layout(dp=8 // tp, tp=tp, ep=ep, sequence_parallel=tp > 1)
    return Shard(found, layout.grid(), recipe, Clock.of(where.device, recipe))


def routed(one: Shard) -> Experts:
    found = one.model.experts
    assert found is not None
    return found


def beyond(more: Shard, less: Shard) -> tuple[float, float]:
    """Passes over the rows of the experts, by plain copies, that one rank makes more than the other."""
    rows = float(more.routed_tokens) * routed(more).top_k * more.model.hidden
    unit_s = float(more.clock.stream(2 * rows).stream_s)
    both = [expert_work(one) for one in (more, less)]
    ways = [float(one.forward.stream_s) for one in both], [float(one.backward.stream_s) for one in both]
    return (ways[0][0] - ways[0][1]) / unit_s, (ways[1][0] - ways[1][1]) / unit_s


@pytest.mark.parametrize("count", [1, 2, 8])
def test_biases_of_experts_match_torch(count: int) -> None:
    """TEGroupedMLP._apply_bias: every expert's bias times the weights of its rows, which are fp32."""
    biases = [torch.empty(HIDDEN, **HALF, requires_grad=True) for _ in range(count)]
    weights = torch.empty(ROWS, 1, device="meta", requires_grad=True)
    sizes = [ROWS // count] * count

    rows = torch.empty(ROWS, HIDDEN, **HALF, requires_grad=True)

    def program() -> Any:
        parts = zip(torch.split(rows, sizes), biases, torch.split(weights, sizes), strict=True)
        return torch.cat([one + bias * weight for one, bias, weight in parts]).to(rows.dtype)

    there, back = moved(program, [rows, weights, *biases])
    assert (there.passes, back.passes) == (pytest.approx(BIASED[0], rel=0.01), pytest.approx(BIASED[1], rel=0.01))
    bare = Experts(experts=8 * count, top_k=4, ffn=HIDDEN)
    one = shard()
    several = (replace(bare, out_bias=True), bare)
    both = [expert_work(replace(one, model=replace(one.model, experts=moe))) for moe in several]
    clamps = clamped(one, replace(bare, out_bias=True))
    ways = [(float(one.forward.kernels), float(one.backward.kernels)) for one in (*both, clamps)]
    assert ways[0][0] - ways[1][0] - ways[2][0] == there.kernels
    assert ways[0][1] - ways[1][1] - ways[2][1] == pytest.approx(back.kernels, abs=1)


def test_clamping_gate_and_up_projection_matches_torch() -> None:
    def program(rows: Any) -> Any:
        gate, up = rows.chunk(2, -1)
        return torch.cat((gate.clamp(min=None, max=7.0), up.clamp(min=-7.0, max=7.0)), -1)

    there, back = measured(program, 2 * HIDDEN)
    assert (there.passes / 2, back.passes / 2) == (pytest.approx(CLAMPED[0]), pytest.approx(CLAMPED[1], rel=0.01))


def test_separate_row_weights_match_torch() -> None:
    """TEGroupedMLP.forward without bias_activation_fusion."""
    rows = torch.empty(ROWS, HIDDEN, **HALF, requires_grad=True)
    weights = torch.empty(ROWS, 1, device="meta", requires_grad=True)

    def program() -> Any:
        return (torch.nn.functional.gelu(rows) * weights).to(rows.dtype)

    there, back = moved(program, [rows, weights])
    assert [there.passes, back.passes] == pytest.approx(WEIGHTED, rel=0.01)


@pytest.mark.parametrize("count", [1, 2, 4, 8])
def test_slices_of_rows_match_torch(count: int) -> None:
    """SequentialMLP of release 0.9; the expert in it only changes the sign, two passes either way."""
    each = ROWS // count

    def program(rows: Any) -> Any:
        found = torch.zeros_like(rows)
        for start in range(0, ROWS, each):
            found[start : start + each] = rows[start : start + each].neg()
        return found

    there, back = measured(program)
    one, other = (shard(ep=8 // count, name="mixtral-8x7b", sliced_experts=sliced) for sliced in (True, False))
    assert beyond(one, other) == (pytest.approx(there.passes - 2), pytest.approx(back.passes - 2))
    kernels = [expert_work(rank) for rank in (one, other)]
    assert float(kernels[0].forward.kernels - kernels[1].forward.kernels) == there.kernels - count
    assert float(kernels[0].backward.kernels - kernels[1].backward.kernels) == back.kernels - count


def test_gathers_of_rows_match_torch() -> None:
    """A gather of columns joins what came, a reduction what is sent: forward one of each, backward too."""
    there, _ = measured(lambda rows: torch.cat(rows.chunk(WAYS, 0), -1))
    sent, _ = measured(lambda rows: torch.cat(torch.split(rows, HIDDEN // WAYS, 1), 0))
    ranks = [shard(ep=2, tp=4, name="mixtral-8x7b", sliced_experts=sliced) for sliced in (True, False)]
    alone = [shard(ep=2, name="mixtral-8x7b", sliced_experts=sliced) for sliced in (True, False)]
    cut, whole = beyond(*ranks), beyond(*alone)
    both = there.passes + sent.passes
    assert (cut[0] - whole[0], cut[1] - whole[1]) == (pytest.approx(both), pytest.approx(both))


def test_padding_for_narrow_formats_matches_torch() -> None:
    """Rows are copied apart before the experts and together after them, the gradients of both likewise."""
    more = torch.empty(16, HIDDEN, **HALF)
    there, _ = measured(lambda rows: torch.cat((rows, more))[:ROWS].clone())
    for dtype, copied in (("fp8", there.passes), ("mxfp8", there.passes), ("bf16", 0.0)):
        device = cluster("dgx-b200:1").device
        ranks = [shard(name="mixtral-8x7b", dtype=dtype, expert_padding=padding) for padding in ("copied", "none")]
        both = [replace(one, clock=Clock.of(device, one.recipe)) for one in ranks]
        assert [*beyond(both[0], both[1])] == pytest.approx([copied, copied], rel=0.01)


def test_grouped_expert_kernels_need_no_extra_passes() -> None:
    apart, together = shard(), shard(experts="grouped")
    forward, backward = beyond(apart, together)
    assert forward > BIASED[0] + CLAMPED[0]
    assert backward > BIASED[1] + CLAMPED[1]
    assert float(clamped(together, routed(together)).forward.stream_s) == 0.0
    assert float(clamped(shard(name="mixtral-8x7b"), routed(shard(name="mixtral-8x7b"))).forward.stream_s) == 0.0


def test_a_factor_on_sines_leaves_rotary_embedding_to_torch() -> None:
    """Transformer Engine's kernel takes none; YaRN has one unless both of its scales are equal."""

    def passes(rotary: Rotary | None, stack: str) -> float:
        one = shard(stack=stack)
        one = replace(one, model=replace(one.model, rotary=rotary))
        unit: Passes = one.operations(1e6, 1.0, 1.0)
        return float(slot_work(one, "rotary", 1e6).forward.stream_s / unit.forward.stream_s)

    def kernel(stack: str) -> float:
        return counted("rotary", "one")[0] * shard(stack=stack).clock.stack.elementwise_factor / OPERATIONS

    stretched, even = Rotary(scaling="yarn", factor=32.0), Rotary(scaling="yarn", factor=32.0, mscale_all_dim=1.0)
    written = find_way("rotary", "written")
    assert passes(stretched, "nemo-25") == pytest.approx(written.passes[0] * written.slow[0])
    for rotary in (even, None, Rotary()):
        assert passes(rotary, "nemo-25") == pytest.approx(kernel("nemo-25"))
    assert passes(stretched, "maxtext") == pytest.approx(kernel("maxtext"))


def test_a_window_as_long_as_the_sequence_changes_nothing() -> None:
    one = shard()
    whole, windowed = attention_core(one, 0), attention_core(one, 4096)
    assert float(windowed.forward.attention_s) == pytest.approx(float(whole.forward.attention_s))
    assert float(windowed.backward.attention_s) == pytest.approx(float(whole.backward.attention_s))


def test_a_short_window_saves_less_time_than_products() -> None:
    """The tiles on the diagonal stay."""
    one = shard()
    whole, windowed = attention_core(one, 0).forward, attention_core(one, 128).forward
    saved = float(windowed.flops / whole.flops)
    assert 2 * saved < float(windowed.attention_s / whole.attention_s) < 1


@pytest.mark.parametrize(
    ("seq", "forward_ms", "backward_ms"),
    [(2048, 0.109, 0.237), (4096, 0.210, 0.465), (8192, 0.414, 0.911), (16384, 0.822, 1.818)],
)
def test_windows_run_as_fast_as_published(seq: int, forward_ms: float, backward_ms: float) -> None:
    """gpt-oss's windows of 128 under cuDNN 9.22 on GB200, of which nothing was fitted: NVIDIA/cudnn-frontend@3929da2,
    benchmark/sdpa_benchmark_training/results/gpt_oss/gb200, two sequences of 128 heads of 64.
    """
    attention = Attention(heads=128, kv_heads=128, head_dim=64, window=128)
    found = replace(shard().model, attention=attention, pattern=())
    recipe = recipe_by(seq=seq, batch=2, attention_kernel="cudnn")
    clock = Clock.of(cluster("gb200-nvl72").device, recipe)
    work = attention_core(Shard(found, Layout(micro_batch=2).grid(), recipe, clock), 128)
    assert 1e3 * float(work.forward.attention_s) == pytest.approx(forward_ms, rel=0.3)
    assert 1e3 * float(work.backward.attention_s) == pytest.approx(backward_ms, rel=0.3)
