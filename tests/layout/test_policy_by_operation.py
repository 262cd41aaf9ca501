"""torchtitan's recomputation per operation, replayed by torch's own selective checkpointing on small layers.

The policy keeps what attention gives and every other matrix product, counted in the order of the forward pass; with a
bias a product is `addmm`, which it neither keeps nor counts (pytorch/torchtitan, distributed/activation_checkpoint.py).
"""

from __future__ import annotations

import gc
import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from lockstep.describe.hardware import device
from lockstep.describe.stacks import find_way
from lockstep.describe.workload import DENSE, SELECTIVE, Attention, Mlp, Piece, Transformer, layer_activation_B, model
from lockstep.price.kernels.clock import Clock
from lockstep.price.kernels.layer import core_work
from lockstep.price.kernels.recompute import modules_again
from lockstep.price.kernels.shard import Shard
from lockstep.price.layout import Layout
from recipes import recipe_by

torch: Any = pytest.importorskip("torch", reason="needs torch")

TOKENS, HIDDEN, HEADS, FFN = 64, 128, 4, 320
MM = torch.ops.aten.mm.default


class Layer(torch.nn.Module):  # type: ignore[misc]
    """A layer of which nothing but products and attention keeps more than a few numbers for each token."""

    def __init__(self, key_heads: int, qkv_bias: bool, bias: bool, gated: bool, normed: bool) -> None:
        super().__init__()
        narrow, linear = HIDDEN // HEADS * key_heads, torch.nn.Linear
        self.key_heads, self.gated, self.normed = key_heads, gated, normed
        self.qkv = torch.nn.ModuleList(linear(HIDDEN, width, bias=qkv_bias) for width in (HIDDEN, narrow, narrow))
        self.out = linear(HIDDEN, HIDDEN, bias=bias)
        self.inner = torch.nn.ModuleList(linear(HIDDEN, FFN, bias=bias) for _ in range(2 if gated else 1))
        self.down = linear(FFN, HIDDEN, bias=bias)

    def forward(self, x: Any) -> Any:
        """Queries, keys, values, attention, output, and the block."""
        heads = [one(x).view(1, TOKENS, -1, HIDDEN // HEADS).transpose(1, 2) for one in self.qkv]
        if self.normed:
            heads[:2] = [torch.nn.functional.layer_norm(one, one.shape[-1:]) for one in heads[:2]]
        shared = self.key_heads < HEADS
        mixed = torch.nn.functional.scaled_dot_product_attention(*heads, is_causal=True, enable_gqa=shared)
        x = x + self.out(mixed.transpose(1, 2).reshape(TOKENS, HIDDEN))
        made = [one(x) for one in self.inner]
        made[0] = torch.nn.functional.silu(made[0])
        return x + self.down(made[0] * made[1] if self.gated else made[0])


def flops(layer: Any, again: bool) -> int:
    """FLOPs that torch counts in a forward and a backward pass, with the policy or with everything kept."""
    from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts
    from torch.utils.flop_counter import FlopCounterMode

    products = 0

    def policy(_: Any, function: Any, *args: Any, **__: Any) -> Any:
        nonlocal products
        products += function is MM
        saved = products % 2 == 1 if function is MM else "attention" in str(function)
        return CheckpointPolicy.MUST_SAVE if saved else CheckpointPolicy.PREFER_RECOMPUTE

    x = torch.randn(TOKENS, HIDDEN, requires_grad=True)
    with FlopCounterMode(display=False) as counter:
        if again:
            how = {"context_fn": lambda: create_selective_checkpoint_contexts(policy)}
            checkpoint(layer, x, use_reentrant=False, **how).sum().backward()
        else:
            layer(x).sum().backward()
    found: int = counter.get_total_flops()
    return found


def described(key_heads: int, qkv_bias: bool, bias: bool, gated: bool, normed: bool) -> Transformer:
    base = model("llama3-8b")
    assert isinstance(base, Transformer)
    attention = Attention(
        heads=HEADS, kv_heads=key_heads, head_dim=HIDDEN // HEADS, qkv_bias=qkv_bias, out_bias=bias,
        qk_norm="head" if normed else "none",
    )  # fmt: skip
    return replace(
        base, hidden=HIDDEN, attention=attention, positions="none",
        mlp=Mlp(ffn=FFN, gated=gated, activation="silu", in_bias=bias, out_bias=bias),
    )  # fmt: skip


LAYERS = {
    "Llama": (2, False, False, True, False),
    "Qwen 2": (2, True, False, True, False),
    "Qwen 3": (2, False, False, True, True),
    "GPT-2": (4, True, True, False, False),
    "without a gate": (4, False, False, False, False),
}


@pytest.mark.parametrize("name", LAYERS)
def test_recomputed_products_match_torch(name: str) -> None:
    words = LAYERS[name]
    layer = Layer(*words)
    recipe = recipe_by("torchtitan", seq=TOKENS, batch=1, recompute_modules=("op",))
    shard = Shard(described(*words), Layout(recompute="selective").grid(), recipe, Clock.of(device("h100-sxm"), recipe))
    again = modules_again(shard, DENSE, core_work(shard, DENSE))
    assert float(again.flops) == flops(layer, again=True) - flops(layer, again=False)


def waiting_B(words: tuple[int, bool, bool, bool, bool]) -> int:
    """Bytes that wait after a forward pass with the policy, the input too, but not what the layer gives; in a process
    without other tests' tensors.
    """
    from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

    products = 0

    def policy(_: Any, function: Any, *args: Any, **__: Any) -> Any:
        nonlocal products
        products += function is MM
        saved = products % 2 == 1 if function is MM else "attention" in str(function)
        return CheckpointPolicy.MUST_SAVE if saved else CheckpointPolicy.PREFER_RECOMPUTE

    x, layer = torch.randn(TOKENS, HIDDEN, requires_grad=True), Layer(*words)
    own = {one.untyped_storage().data_ptr() for one in layer.parameters()}
    before = {one.data_ptr() for one in storages()}
    how = {"context_fn": lambda: create_selective_checkpoint_contexts(policy)}
    found = checkpoint(layer, x, use_reentrant=False, preserve_rng_state=False, **how)
    left = own | (before - {x.untyped_storage().data_ptr()}) | {found.untyped_storage().data_ptr()}
    return sum(one.nbytes() for one in storages() if one.data_ptr() not in left)


def storages() -> list[Any]:
    """Memory of every tensor that is there, once."""
    gc.collect()
    tensors = [one for one in gc.get_objects() if issubclass(type(one), torch.Tensor)]
    return [*{one.untyped_storage().data_ptr(): one.untyped_storage() for one in tensors}.values()]


@pytest.fixture(scope="module")
def alone() -> Iterator[ProcessPoolExecutor]:
    """The process of `waiting_B`: one for all layers, as it takes seconds to begin."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        yield process


@pytest.mark.parametrize("name", LAYERS)
def test_kept_tensors_match_torch(name: str, alone: ProcessPoolExecutor) -> None:
    words = LAYERS[name]
    piece = Piece(
        micro_batch=1,
        seq=TOKENS,
        element_B=4.0,
        recompute_modules=("op",),
        saves={"gate": find_way("gate", "apart").saves},
    )
    priced_B = layer_activation_B(described(*words), piece, DENSE, SELECTIVE)
    assert float(priced_B) == alone.submit(waiting_B, words).result()
