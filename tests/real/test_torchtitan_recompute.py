"""torchtitan's own policies of recomputation wrap small layers, and torch is asked what is computed again and what
waits for the backward pass; Lockstep's answer is what it prices and keeps of the same layer.
"""

from __future__ import annotations

import gc
import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from random import Random
from typing import Any

import pytest
import torch
from agreement import Asker
from torch.nn.functional import layer_norm, scaled_dot_product_attention, silu
from torch.utils.flop_counter import FlopCounterMode

from lockstep.describe.hardware import device
from lockstep.describe.stacks import find_way
from lockstep.describe.workload import DENSE, FULL, SELECTIVE, Attention, Mlp, Piece, Transformer, layer_activation_B
from lockstep.describe.workload import model as known_model
from lockstep.price.kernels.clock import Clock
from lockstep.price.kernels.layer import core_work
from lockstep.price.kernels.recompute import modules_again
from lockstep.price.kernels.shard import Shard
from lockstep.price.layout import Layout
from recipes import recipe_by

pytestmark = pytest.mark.filterwarnings("ignore")
ADDED = "torchtitan 0.3 also keeps every product with a bias, which torchtitan 0.2 and Lockstep compute again"
ENDS = "torchtitan 0.3 computes a layer again to its end, torchtitan 0.2 and Lockstep up to its last product"


@dataclass(frozen=True)
class Shape:
    """Sizes of a layer, and which parts it has."""

    tokens: int
    heads: int
    key_heads: int
    ffn: int
    qkv_bias: bool
    bias: bool
    gated: bool
    normed: bool

    @classmethod
    def drawn(cls, seed: int) -> Shape:
        """One of them."""
        random = Random(seed)
        key_heads = random.choice([1, 2, 4])
        heads, bits = key_heads * random.choice([1, 2]), [random.random() < chance for chance in (0.2, 0.15, 0.7, 0.3)]
        return cls(16 * random.randint(1, 6), heads, key_heads, 64 * random.randint(1, 6), *bits)

    @property
    def hidden(self) -> int:
        """Heads of 32."""
        return 32 * self.heads

    @property
    def described(self) -> Transformer:
        """The same as Lockstep has it."""
        base = known_model("llama3-8b")
        assert isinstance(base, Transformer)
        attention = Attention(
            heads=self.heads, kv_heads=self.key_heads, head_dim=32, qkv_bias=self.qkv_bias, out_bias=self.bias,
            qk_norm="head" if self.normed else "none",
        )  # fmt: skip
        mlp = Mlp(ffn=self.ffn, gated=self.gated, activation="silu", in_bias=self.bias, out_bias=self.bias)
        return replace(base, hidden=self.hidden, attention=attention, positions="none", mlp=mlp)


class Layer(torch.nn.Module):
    """A layer of which nothing but products and attention keeps more than a few numbers for each token."""

    def __init__(self, of: Shape) -> None:
        super().__init__()
        self.of, linear = of, torch.nn.Linear
        widths = (of.hidden, 32 * of.key_heads, 32 * of.key_heads)
        self.qkv = torch.nn.ModuleList(linear(of.hidden, width, bias=of.qkv_bias) for width in widths)
        self.out = linear(of.hidden, of.hidden, bias=of.bias)
        self.inner = torch.nn.ModuleList(linear(of.hidden, of.ffn, bias=of.bias) for _ in range(1 + of.gated))
        self.down = linear(of.ffn, of.hidden, bias=of.bias)

    def forward(self, x: Any) -> Any:
        """Queries, keys, values, attention, output, and the block."""
        of = self.of
        heads = [one(x).view(1, of.tokens, -1, 32).transpose(1, 2) for one in self.qkv]
        if of.normed:
            heads[:2] = [layer_norm(one, one.shape[-1:]) for one in heads[:2]]
        mixed = scaled_dot_product_attention(*heads, is_causal=True, enable_gqa=of.key_heads < of.heads)
        x = x + self.out(mixed.transpose(1, 2).reshape(of.tokens, of.hidden))
        made = [one(x) for one in self.inner]
        made[0] = silu(made[0])
        return x + self.down(made[0] * made[1] if of.gated else made[0])


@cache
def policies() -> dict[str, Any]:
    """torchtitan's, the one per operation with the kernel of attention of a CPU beside those of GPUs."""
    from torchtitan.distributed.activation_checkpoint import FullAC, SelectiveAC

    class OnCpu(SelectiveAC):
        def get_save_ops(self) -> set[Any]:
            return super().get_save_ops() | {torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default}

    return {
        "op": OnCpu(SelectiveAC.Config(preserve_rng_state=False)),
        "full": FullAC(FullAC.Config(preserve_rng_state=False)),
    }


def wrapped(of: Shape, policy: str) -> Any:
    """A layer under a policy, as torchtitan puts it there."""
    model = torch.nn.Module()
    model.layers = torch.nn.ModuleDict({"0": Layer(of)})
    policies()[policy].apply(model)
    return model.layers["0"]


def flops(of: Shape, policy: str | None) -> int:
    """FLOPs that torch counts in a forward and a backward pass."""
    layer = wrapped(of, policy) if policy else Layer(of)
    x = torch.randn(of.tokens, of.hidden, requires_grad=True)
    with FlopCounterMode(display=False) as counter:
        layer(x).sum().backward()
    found: int = counter.get_total_flops()
    return found


def waiting_B(of: Shape, policy: str) -> int:
    """Bytes that wait after a forward pass, the input too, but not what the layer gives; in a process without other
    tests' tensors.
    """
    gc.collect()
    gc.freeze()  # What is there before need not be looked at.
    x, layer = torch.randn(of.tokens, of.hidden, requires_grad=True), wrapped(of, policy)
    own = {one.untyped_storage().data_ptr() for one in layer.parameters()}
    found = layer(x)
    left = own | {found.untyped_storage().data_ptr()}
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


def why(of: Shape) -> str:
    """Why what is computed again differs: the last of an even number of products is."""
    if of.gated and of.qkv_bias and not of.bias and 32 * (of.heads + 2 * of.key_heads) == of.ffn:
        return ""  # The last product has as many FLOPs as the three with a bias.
    return ADDED if of.bias or of.qkv_bias else "" if of.gated else ENDS


def test_what_is_computed_again(asked: Asker) -> None:
    """FLOPs of products and attention, per operation."""
    with asked("torchtitan", "FLOPs that SelectiveAC computes again in a layer") as answers:
        for seed in range(80):
            of = Shape.drawn(seed)
            recipe = recipe_by("torchtitan", seq=of.tokens, batch=1, recompute_modules=("op",))
            clock = Clock.of(device("h100-sxm"), recipe)
            shard = Shard(of.described, Layout(recompute="selective").grid(), recipe, clock)
            again = modules_again(shard, DENSE, core_work(shard, DENSE))
            answers.compare(f"{of}", float(again.flops), float(flops(of, "op") - flops(of, None)), why=why(of))


def test_what_waits(asked: Asker, alone: ProcessPoolExecutor) -> None:
    """Bytes after a forward pass, per operation and of layers that run again whole."""
    with asked("torchtitan", "bytes that a layer keeps under SelectiveAC and FullAC") as answers:
        for seed in range(60):
            of = Shape.drawn(seed)
            saves = {"gate": find_way("gate", "apart").saves}
            piece = Piece(
                micro_batch=1, seq=of.tokens, element_B=4.0, recompute_modules=("op",), saves=saves
            )  # fmt: skip
            for policy, mode in (("op", SELECTIVE), ("full", FULL)):
                theirs = alone.submit(waiting_B, of, policy).result()
                ours = float(layer_activation_B(of.described, piece, DENSE, mode))
                biased = policy == "op" and (of.bias or of.qkv_bias)
                answers.compare(f"{of} {policy}", ours, float(theirs), why=ADDED if biased else "")
