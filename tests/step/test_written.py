"""GPT-2's GELU and attention as transformers writes them out, against torch's own operations and kept tensors."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lockstep.describe.hardware import cluster
from lockstep.describe.workload import NONE, SELECTIVE, Transformer, kept_tensors, model
from lockstep.price.kernels.attention import attention_core
from lockstep.price.kernels.clock import MIXED, WIDENED, Clock
from lockstep.price.kernels.shard import Shard
from lockstep.price.kernels.slots import slot_work
from lockstep.price.layout import Layout, Recipe
from lockstep.price.layout.kept import piece
from recipes import counted, recipe_by

torch: Any = pytest.importorskip("torch", reason="needs torch")

from .test_passes import VIEWS, Moved  # noqa: E402

HALF, WIDE = torch.bfloat16, torch.float32
ROWS, HEADS, DIM = 4096, 4, 16


class Kernels(Moved):
    """Bytes and launches of all operations but products."""

    def __init__(self) -> None:
        super().__init__()
        self.kernels = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if name in ("bmm", "mm", "empty_like", "new_empty_strided", "copy_", *VIEWS):
            return func(*args, **(kwargs or {}))
        self.kernels += 1
        return super().__torch_dispatch__(func, types, args, kwargs)


def run(forward: Callable[..., Any], *given: Any) -> tuple[tuple[float, float], tuple[int, int], float]:
    """((bytes forward, backward), (kernels forward, backward), bytes kept) of a function."""
    kept: dict[int, Any] = {}

    def keep(tensor: Any) -> Any:
        kept[tensor.untyped_storage()._cdata] = tensor
        return tensor

    with Kernels() as there, torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        found = forward(*given)
    with Kernels() as back:
        found.backward(torch.empty_like(found))
    size_B = sum(one.untyped_storage().nbytes() for one in kept.values())
    return (there.size_B, back.size_B), (there.kernels, back.kernels), float(size_B)


def _gelu(wide: bool) -> Callable[[Any], Any]:
    """NewGELUActivation; under autocast a power is taken in fp32, and the product that follows casts what it reads."""

    def forward(x: Any) -> Any:
        power = torch.pow(x.to(WIDE) if wide else x, 3.0)
        found = 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * power)))
        return found.to(HALF)

    return forward


@pytest.mark.parametrize("autocast", [True, False])
def test_unfused_gelu_of_gpt2_matches_torch(autocast: bool) -> None:
    start = torch.empty(ROWS, DIM, dtype=HALF, device="meta", requires_grad=True)
    moved_B, kernels, kept_B = run(_gelu(autocast), start)
    passes = counted("activation", "autocast" if autocast else "written")
    elements = ROWS * DIM
    assert passes[:2] == pytest.approx([size_B / (2 * elements) for size_B in moved_B])
    assert passes[2:] == pytest.approx(kernels, abs=1)
    rows = {
        row.name: row for row in kept_tensors(_model(), piece(_recipe(autocast=autocast), Layout().grid(), _model()))
    }
    written = [row.size_B for name, row in rows.items() if name.startswith(("mlp activation input", "activation:"))]
    written_B = sum(written) / (2048 * _model().mlp.ffn)  # type: ignore[union-attr]
    assert written_B == pytest.approx(kept_B / elements)


@pytest.mark.parametrize(
    ("stack", "autocast"),
    [("hf-trainer-5", True), ("hf-trainer-5", False), ("hf-trainer", False), ("deepspeed", False)],
)
def test_unfused_attention_of_transformers_matches_torch(stack: str, autocast: bool) -> None:
    """Rotary embedding leaves queries and keys in fp32 under autocast, whose products cast them."""

    def attend(query: Any, key: Any, value: Any, mask: Any) -> Any:
        scores = torch.matmul(query.to(HALF), key.to(HALF).transpose(1, 2)) * DIM**-0.5
        weights = torch.nn.functional.softmax(scores + mask, dim=-1, dtype=WIDE).to(query.dtype)
        return torch.matmul(weights.to(HALF), value)

    def tensor(*shape: int, dtype: Any = HALF, gradient: bool = True) -> Any:
        return torch.empty(*shape, dtype=dtype, device="meta", requires_grad=gradient)

    dtype = WIDE if autocast else HALF
    query, key = (tensor(HEADS, ROWS, DIM, dtype=dtype) for _ in range(2))
    value, mask = tensor(HEADS, ROWS, DIM), tensor(ROWS, ROWS, dtype=dtype, gradient=False)
    moved_B, kernels, kept_B = run(attend, query, key, value, mask)
    scores, passes = HEADS * ROWS * ROWS, counted("scores", "autocast" if autocast else "written")
    # Beside scores: the mask, which heads share, and casts of queries and keys, priced elsewhere.
    assert moved_B[0] / (2 * scores) == pytest.approx(passes[0], abs=2 / HEADS + 0.1)
    # On a GPU softmax's gradient multiplies two tensors in a kernel of its own, which no operation here shows.
    assert moved_B[1] / (2 * scores) == pytest.approx(passes[1] - 6, abs=0.1)
    assert (passes[2], passes[3] - 1) == pytest.approx([each - 2 * autocast for each in kernels])
    # Of a class whose softmax is in fp32 whatever its scores are, as Llama's.
    model = replace(_model(), model_type="llama")
    found = kept_tensors(model, piece(_recipe(stack, autocast=autocast), Layout().grid(), model))
    rows = {row.name: row for row in found}
    written_B = sum(rows[name].size_B for name in ("attention: softmax in fp32", "attention probabilities"))
    assert written_B / (16 * 2048 * 2048) == pytest.approx((kept_B - 3 * 2 * HEADS * ROWS * DIM) / scores)


def test_only_unfused_activations_pay_for_unfused_kernels() -> None:
    """Megatron's fused GELU and other models' activations are one kernel, and fused attention has no scores."""
    written, fused, other = (
        slot_work(_shard(_recipe(activation=way), name), "activation", 4096 * 2048)
        for way, name in (("autocast", "gpt2-medium"), ("one", "gpt2-medium"), ("autocast", "vit-l-16"))
    )
    # Three passes of a copy to fp32 and ten of kernels that read both formats take longer than their bytes.
    passes = 38 + 3 * (WIDENED - 1) + 10 * (MIXED - 1)
    assert float(written.forward.stream_s) == pytest.approx(passes / 2 * float(fused.forward.stream_s))
    assert float(other.forward.stream_s) == float(fused.forward.stream_s)
    cores = [attention_core(_shard(_recipe(flash_attention=True, scores=way)), 0) for way in ("written", "kernel")]
    assert cores[0] == cores[1]


def _recipe(stack: str = "hf-trainer-5", **more: Any) -> Recipe:
    return recipe_by(stack, seq=2048, batch=2, **({"flash_attention": False} | more))


def _model(name: str = "gpt2-medium") -> Transformer:
    found = model(name)
    assert isinstance(found, Transformer)
    return found


def _shard(recipe: Recipe, name: str = "gpt2-medium") -> Shard:
    grid = Layout(micro_batch=2).grid()
    return Shard(_model(name), grid, recipe, Clock.of(cluster("dgx-h100:1").device, recipe))


def test_recomputing_an_unfused_activation_frees_its_intermediates() -> None:
    """Its input stays; what its operations read comes back when the function alone runs again."""
    again = {"recompute_modules": ("mlp_act",)}
    rows = kept_tensors(_model(), piece(_recipe(autocast=False, **again), Layout().grid(), _model()))
    kept_up_to = {row.name: row.kept_up_to for row in rows}
    assert kept_up_to["mlp activation input"] == SELECTIVE
    assert kept_up_to["activation: what its operations read"] == NONE
