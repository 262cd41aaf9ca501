"""Kernels of compiled layers on one GPU, by who wrote them, as kept in `check/validation/tables/compiled_layers.csv`.

    python benchmarks/gpu_compiled.py

Three layers of Llama in a row, forward and backward in bf16, each compiled by itself; torch's profiler adds up what
Inductor's kernels take, those of products and those of attention, for one layer. Random weights and inputs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from lockstep.describe.workload import Transformer, model

CASES = (
    ("llama3.2-1b", "fused", 2048, 4), ("llama3-8b", "fused", 8192, 1), ("llama3-70b", "fused", 8192, 1),
    ("llama3.2-1b", "written", 2048, 4), ("llama3-8b", "fused", 2048, 1),
)  # fmt: skip
LAYERS, REPEATS = 3, 4
KINDS = {"triton": "compiled", "flash": "attention", "fmha": "attention", "gemm": "products", "nvjet": "products"}


class WrittenNorm(nn.Module):
    """RMSNorm as transformers' models write it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """The norm of rows, computed in fp32."""
        wide = x.float()
        return self.weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype)


def turned(x: Tensor, angles: tuple[Tensor, Tensor]) -> Tensor:
    """Rotary embedding."""
    one, other = x.chunk(2, -1)
    return x * angles[0] + torch.cat((-other, one), -1) * angles[1]


class Layer(nn.Module):
    """A layer of a model of the catalog."""

    def __init__(self, described: Transformer, norm: Callable[[int], nn.Module]) -> None:
        super().__init__()
        attention, h, ffn = described.attention, described.hidden, described.mlp.ffn  # type: ignore[union-attr]
        self.heads, self.kv_heads, self.size = attention.heads, attention.kv_heads, attention.head_dim
        wide, narrow = self.heads * self.size, self.kv_heads * self.size
        self.before, self.between = norm(h), norm(h)
        sides = [(h, wide), (h, narrow), (h, narrow), (wide, h), (h, ffn), (h, ffn), (ffn, h)]
        self.q, self.k, self.v, self.o, self.gate, self.up, self.down = (nn.Linear(*one, bias=False) for one in sides)

    def forward(self, x: Tensor, angles: tuple[Tensor, Tensor]) -> Tensor:
        """What comes out for `x` (sequences, tokens, hidden)."""
        count, tokens, _ = x.shape
        y = self.before(x)
        parts = zip((self.q, self.k, self.v), (self.heads, self.kv_heads, self.kv_heads), strict=True)
        q, k, v = (part(y).view(count, tokens, heads, self.size).transpose(1, 2) for part, heads in parts)
        several = self.heads // self.kv_heads
        k, v = (one.repeat_interleave(several, 1) for one in (turned(k, angles), v))
        found = F.scaled_dot_product_attention(turned(q, angles), k, v, is_causal=True)
        x = x + self.o(found.transpose(1, 2).reshape(count, tokens, -1))
        y = self.between(x)
        out: Tensor = x + self.down(F.silu(self.gate(y)) * self.up(y))
        return out


def seconds_by_kind(step: Callable[[], object]) -> Counter[str]:
    """Microseconds of the device's kernels in one call, by kind."""
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as found:
        for _ in range(REPEATS):
            step()
        torch.cuda.synchronize()
    total: Counter[str] = Counter()
    for event in found.events():
        kind = next((kind for name, kind in KINDS.items() if name in event.name.lower()), "other")
        total[kind] += event.device_time / REPEATS / LAYERS
    return total


def measured(name: str, norms: str, seq: int, micro_batch: int) -> list[str]:
    """A row of the table, without its name."""
    described = model(name)
    assert isinstance(described, Transformer)
    norm = WrittenNorm if norms == "written" else lambda width: nn.RMSNorm(width, eps=1e-5)
    layers = [Layer(described, norm).to("cuda", torch.bfloat16) for _ in range(LAYERS)]
    for layer in layers:
        layer.compile()
    x = torch.randn(micro_batch, seq, described.hidden, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    gradient, turn = torch.randn_like(x), torch.randn(seq, layers[0].size, device="cuda", dtype=torch.bfloat16)

    def forward() -> Tensor:
        y = x
        for layer in layers:
            y = layer(y, (turn.cos(), turn.sin()))
        return y

    def both() -> None:
        for one in (x, *(weight for layer in layers for weight in layer.parameters())):
            one.grad = None
        forward().backward(gradient)

    there, whole = seconds_by_kind(forward)["compiled"], seconds_by_kind(both)
    kinds = there, whole["compiled"] - there, whole["products"], whole["attention"]
    return [name, norms, str(seq), str(micro_batch), *(f"{microseconds:.1f}" for microseconds in kinds)]


if __name__ == "__main__":
    torch.manual_seed(0)
    for case in CASES:
        print(",".join(measured(*case)), flush=True)
