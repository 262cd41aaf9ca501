"""Layers of experts in PyTorch's operations on one GPU, as kept in `check/validation/tables/expert_code.csv`.

    python benchmarks/gpu_experts.py

Router and experts as torchtitan's code brings rows to grouped products, with rows of zeros (`torchtitan`) and before it
had those (`unpadded`), and as transformers 4 runs one expert after another; forward and backward in bf16, random
weights and inputs. Microseconds of kernels by torch's profiler, of those the products, and of the clock on the wall.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

SHAPES = {"qwen3": (2048, 768, 128, 8), "mixtral": (4096, 14336, 8, 2), "deepseek-v2-lite": (2048, 1408, 64, 6)}
"""Hidden size, numbers in an expert, experts, choices of a token."""
CASES = (
    ("unpadded", "qwen3", 16384), ("unpadded", "mixtral", 8192), ("unpadded", "deepseek-v2-lite", 16384),
    ("torchtitan", "qwen3", 16384), ("transformers-4", "qwen3", 8192), ("transformers-4", "mixtral", 8192),
)  # fmt: skip
REPEATS, MULTIPLE, SCALE = 3, 8, 0.02
PRODUCTS = ("cutlass13device_kernel", "nvjet")


class Grouped(nn.Module):
    """torchtitan's layer, with a multiple of rows for each expert or not."""

    def __init__(self, shape: tuple[int, int, int, int], padded: bool) -> None:
        super().__init__()
        hidden, ffn, self.experts, self.choices = shape
        self.padded, self.gate = padded, nn.Linear(hidden, self.experts, bias=False)
        self.w1, self.w3 = (nn.Parameter(torch.randn(self.experts, ffn, hidden) * SCALE) for _ in range(2))
        self.w2 = nn.Parameter(torch.randn(self.experts, hidden, ffn) * SCALE)

    def forward(self, x: Tensor) -> Tensor:
        """What comes out for tokens x hidden."""
        scores = F.softmax(self.gate(x).float(), dim=1)
        top, chosen = torch.topk(scores, k=self.choices, dim=1)
        top, flat = top / (top.sum(-1, keepdim=True) + 1e-20), chosen.reshape(-1)
        counts = torch.histc(flat.float(), bins=self.experts, min=0, max=self.experts).to(torch.int64)
        order = torch.argsort(flat, stable=True)
        index = (order // self.choices).reshape(-1, 1).expand(-1, x.shape[1])
        rows = self.run(torch.gather(x, 0, index), counts)
        rows = (rows.float() * top.view(-1)[order].reshape(-1, 1)).to(x.dtype)
        return torch.zeros_like(x).scatter_add(0, index, rows)

    def run(self, rows: Tensor, counts: Tensor) -> Tensor:
        """The experts over rows in their order."""
        if not self.padded:
            return self.products(rows, counts)
        wanted = (torch.clamp(counts, min=MULTIPLE) + MULTIPLE - 1) // MULTIPLE * MULTIPLE
        starts, firsts = torch.cumsum(wanted, 0) - wanted, torch.cumsum(counts, 0) - counts
        places = torch.arange(len(rows) + self.experts * MULTIPLE, device=rows.device)
        expert = torch.clamp(torch.searchsorted(starts, places, right=True) - 1, max=self.experts - 1)
        inside = places - starts[expert]
        taken = torch.where(inside < counts[expert], firsts[expert] + inside, torch.full_like(places, len(rows)))
        joined = torch.vstack((rows, rows.new_zeros((rows.shape[1],))))
        back = joined.new_empty(joined.shape)
        back[taken, :] = self.products(joined[taken, :], wanted)
        return back[:-1]

    def products(self, rows: Tensor, counts: Tensor) -> Tensor:
        """Gate, up and down, each of all experts in a kernel."""
        ends = torch.cumsum(counts, 0).to(torch.int32)
        gate, up = (torch._grouped_mm(rows, one.transpose(-2, -1), offs=ends) for one in (self.w1, self.w3))
        return torch._grouped_mm(F.silu(gate) * up, self.w2.transpose(-2, -1), offs=ends)


class Looped(nn.Module):
    """The layer of transformers 4: experts one after another."""

    def __init__(self, shape: tuple[int, int, int, int]) -> None:
        super().__init__()
        hidden, ffn, self.experts, self.choices = shape
        self.gate = nn.Linear(hidden, self.experts, bias=False)
        self.gates, self.ups, self.downs = (
            nn.ModuleList(nn.Linear(*side, bias=False) for _ in range(self.experts))
            for side in ((hidden, ffn), (hidden, ffn), (ffn, hidden))
        )

    def forward(self, x: Tensor) -> Tensor:
        """What comes out for tokens x hidden."""
        weights, chosen = torch.topk(F.softmax(self.gate(x), dim=1, dtype=torch.float), self.choices, dim=-1)
        weights = (weights / weights.sum(-1, keepdim=True)).to(x.dtype)
        out, mask = torch.zeros_like(x), F.one_hot(chosen, num_classes=self.experts).permute(2, 1, 0)
        for chosen_by, gate, up, down in zip(mask, self.gates, self.ups, self.downs, strict=True):
            place, token = torch.where(chosen_by)
            rows = x[None, token].reshape(-1, x.shape[1])
            rows = down(F.silu(gate(rows)) * up(rows)) * weights[token, place, None]
            out.index_add_(0, token, rows)
        return out


def measured(step: Callable[[], object]) -> tuple[float, float, float]:
    """Microseconds of kernels, of products among them, and of the wall in one call."""
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(REPEATS):
        step()
    torch.cuda.synchronize()
    wall_us = (time.perf_counter() - start) / REPEATS * 1e6
    with profile(activities=[ProfilerActivity.CUDA]) as found:
        for _ in range(REPEATS):
            step()
        torch.cuda.synchronize()
    total: Counter[bool] = Counter()
    for event in found.events():
        total[any(name in event.name for name in PRODUCTS)] += event.device_time / REPEATS
    return total[True] + total[False], total[True], wall_us


def row(code: str, shape: str, tokens: int, compiled: bool) -> list[str]:
    """A row of the table, without its name."""
    sizes = SHAPES[shape]
    layer = Looped(sizes) if code == "transformers-4" else Grouped(sizes, code == "torchtitan")
    layer = layer.to("cuda", torch.bfloat16)
    if compiled:
        layer.compile()
    x = torch.randn(tokens, sizes[0], device="cuda", dtype=torch.bfloat16, requires_grad=True)
    gradient = torch.randn_like(x)

    def both() -> None:
        for one in (x, *layer.parameters()):
            one.grad = None
        layer(x).backward(gradient)

    there, whole = measured(lambda: layer(x)), measured(both)
    found = there[0], whole[0], whole[1], there[2], whole[2]
    return [code, str(int(compiled)), *map(str, sizes), str(tokens), *(f"{one:.0f}" for one in found)]


if __name__ == "__main__":
    torch.manual_seed(0)
    for code, shape, tokens in CASES:
        for compiled in (False, True) if code != "transformers-4" else (False,):
            print(",".join(row(code, shape, tokens, compiled)), flush=True)
