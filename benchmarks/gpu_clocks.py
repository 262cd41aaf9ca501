"""Kernels in loops of layers and alone, with the GPU's clock, as kept in `check/validation/tables/h100_clocks.csv`.

    python benchmarks/gpu_clocks.py -o clocks.csv
    python benchmarks/gpu_clocks.py -o tiny.csv --cpu

Layers in a row with random weights and inputs, forward and backward: compiled in bf16, then eager in bf16 and with
products in fp8, whose one scale per tensor is 1. They are repeated for a second; nvidia-smi reads the SM clock and the
power while they go on, and torch's profiler adds up the kernels of the next four passes by name, for one layer, without
copies and fills by the driver. Attention alone and a layer's products alone are repeated likewise. Compiled layers ran
FlashAttention-2 whatever was asked, so `attention` is read from names of kernels, and a case's second row repeats the
first. Forward products in fp8 accumulate fast in layers, not alone. With `--cpu` what would be measured stays empty.

The table was measured with an earlier, untidied form of this script on 27 November 2026, on an H100 SXM of 700 W with
PyTorch 2.11 and CUDA 13.0; this form has run on CPUs only.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.profiler import ProfilerActivity, profile

CASES = {
    "llama-1b": (2048, 8192, 32, 8, 64, 1, 2048, 4), "llama-8b": (4096, 14336, 32, 8, 128, 1, 8192, 1),
    "llama-8b at 2k": (4096, 14336, 32, 8, 128, 1, 2048, 4), "llama-70b": (8192, 28672, 64, 8, 128, 1, 8192, 1),
    "gpt3-175b tp4": (12288, 12288, 24, 24, 128, 0, 2048, 2), "1.3b at 4k": (2048, 8192, 32, 32, 64, 1, 4096, 4),
    "llama-405b tp8": (16384, 6656, 16, 1, 128, 1, 8192, 1),
}  # fmt: skip
"""A rank's layer and micro-batch, as the table's columns from `hidden` to `micro_batch`."""
TINY = {"tiny": (64, 128, 4, 2, 16, 1, 32, 2), "tiny without gate": (64, 128, 4, 1, 16, 0, 32, 2)}
ONLY_COMPILED, ONLY_EAGER_BF16, TWICE_FP8 = "1.3b at 4k", "llama-405b tp8", ("llama-8b", "gpt3-175b tp4")
BACKENDS = {"flash2": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}
SECONDS, PASSES = {"layers": 1.0, "attention": 0.6, "product": 0.8}, 4
PARTS = ("product", "attention_forward", "attention_backward", "other")
COLUMNS = (
    "row_id", "case", "hidden", "ffn", "heads", "kv_heads", "head_dim", "gated", "seq", "micro_batch", "dtype",
    "attention", *(f"{part}_us" for part in PARTS), "clock_MHz", "power_W", "alone_product_us", "alone_product_MHz",
    "alone_attention_forward_us", "alone_attention_backward_us", "alone_attention_MHz", "alone_attention_W",
)  # fmt: skip
E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
Step = Callable[[], None]


def runs(cases: Iterable[str]) -> Iterator[tuple[str, bool, str, str]]:
    """Case, whether compiled, precision of products, attention asked for."""
    yield from ((case, True, "bf16", asked) for case in cases if case != ONLY_EAGER_BF16 for asked in BACKENDS)
    for case in cases:
        if case != ONLY_COMPILED:
            yield case, False, "bf16", "cudnn"
            if case != ONLY_EAGER_BF16:
                yield case, False, "fp8", "cudnn"
            if case in TWICE_FP8:
                yield case, False, "fp8", "flash2"


def narrow(a: Tensor, b: Tensor, fast: bool = False) -> Tensor:
    """In bf16, the product of `a` with the transposed `b`, both in fp8."""
    one = scale(a.device)
    return torch._scaled_mm(a, b.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=fast)


@cache
def scale(device: torch.device) -> Tensor:
    """That of every tensor."""
    return torch.ones((), device=device)


class Product(torch.autograd.Function):
    """A linear layer in E4M3, its gradients in E5M2; each tensor is cast as it is."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.shape = x.shape
        x, weight = x.reshape(-1, x.shape[-1]).to(E4M3), weight.to(E4M3)
        ctx.save_for_backward(x, weight)
        return narrow(x, weight, fast=True).view(*ctx.shape[:-1], -1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        x, weight = ctx.saved_tensors
        gradient = gradients[0].reshape(-1, len(weight)).to(E5M2)
        of_weight = narrow(gradient.t().contiguous(), x.t().contiguous())
        return narrow(gradient, weight.t().contiguous()).view(ctx.shape), of_weight


class NarrowLinear(nn.Linear):
    """With products in fp8."""

    def forward(self, x: Tensor) -> Tensor:
        return Product.apply(x, self.weight)  # type: ignore[no-any-return,no-untyped-call]


class Layer(nn.Module):
    """A rank's part of a layer, without positions and collectives."""

    def __init__(self, shape: tuple[int, ...], fp8: bool) -> None:
        super().__init__()
        hidden, ffn, self.heads, self.kv_heads, self.size, self.gated, *_ = shape
        self.widths = [heads * self.size for heads in (self.heads, self.kv_heads, self.kv_heads)]
        self.before, self.between = nn.RMSNorm(hidden), nn.RMSNorm(hidden)
        kind = NarrowLinear if fp8 else nn.Linear
        sides = ((hidden, sum(self.widths)), (self.widths[0], hidden), (hidden, ffn * (1 + self.gated)), (ffn, hidden))
        self.qkv, self.out, self.up, self.down = (kind(*side, bias=False) for side in sides)

    def forward(self, x: Tensor) -> Tensor:
        """What comes out for `x` (sequences, tokens, hidden)."""
        count, tokens, _ = x.shape
        parts = self.qkv(self.before(x)).split(self.widths, -1)
        q, k, v = (part.view(count, tokens, -1, self.size).transpose(1, 2) for part in parts)
        each = self.heads // self.kv_heads
        k, v = (side[:, :, None].expand(-1, -1, each, -1, -1).reshape(q.shape) for side in (k, v))
        found = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(found.transpose(1, 2).reshape(count, tokens, -1))
        gate, *value = self.up(self.between(x)).chunk(1 + self.gated, -1)
        inner = F.silu(gate) * value[0] if value else F.gelu(gate, approximate="tanh")
        out: Tensor = x + self.down(inner)
        return out


def part_of(kernel: str) -> str:
    """What a kernel belongs to."""
    low = kernel.lower()
    if low.startswith("triton"):  # First, because Inductor's kernels are named after all that they fuse.
        return "other"
    if "flash" in low or "fmha" in low or ("cudnn" in low and "sdpa" in low):
        back = any(word in low for word in ("bwd", "bprop", "backward"))
        return "attention_backward" if back else "attention_forward"
    if any(word in low for word in ("gemm", "nvjet", "cutlass", "xmma")):
        return "product"
    return "driver" if "memcpy" in low or "memset" in low else "other"


def looped(step: Step, seconds: float) -> tuple[Counter[str], str, list[str]]:
    """Microseconds of a pass by part, whose attention ran, the clock in MHz and the power in W."""
    start = time.perf_counter()
    while time.perf_counter() - start < seconds:
        repeated(step, 3)
    query = ("--id=0", "--query-gpu=clocks.sm,power.draw", "--format=csv,noheader,nounits")
    with subprocess.Popen(("nvidia-smi", *query), stdout=subprocess.PIPE, text=True) as reading:
        while reading.poll() is None:
            repeated(step, 3)
        read = reading.communicate()[0].strip().split(", ")
    with profile(activities=[ProfilerActivity.CUDA]) as found:
        repeated(step, PASSES)
    kernels = [event for event in found.events() if event.device_type == torch.autograd.DeviceType.CUDA]
    time_us = Counter[str]()
    for kernel in kernels:
        time_us[part_of(kernel.name)] += kernel.device_time / PASSES
    return time_us, "cudnn" if any("cudnn" in kernel.name.lower() for kernel in kernels) else "flash2", read


def repeated(step: Step, times: int) -> None:
    """Does a step so often and waits for it."""
    for _ in range(times):
        step()
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def steps_of(layers: nn.Sequential, heads: int, size: int, x: Tensor, fp8: bool) -> dict[str, Step]:
    """Passes through the layers, through one layer's attention, and one layer's products."""
    gradient, (count, tokens, _) = torch.randn_like(x), x.shape
    q, k, v = (x.new_empty(count, heads, tokens, size).normal_().requires_grad_() for _ in range(3))
    of_attention, pairs = torch.randn_like(q), []
    for linear in (module for module in layers[0].modules() if isinstance(module, nn.Linear)):
        w = linear.weight.detach()
        a, g = (w.new_empty(count * tokens, width).normal_() for width in (w.shape[1], w.shape[0]))
        if fp8:  # Cast and laid out here, not in the loop.
            a, w, g = a.to(E4M3), w.to(E4M3), g.to(E5M2)
            pairs += [(a, w), (g, w.t().contiguous()), (g.t().contiguous(), a.t().contiguous())]
        else:
            pairs += [(a, w.t()), (g, w), (g.t(), a)]

    def whole() -> None:
        out = layers(x)
        x.grad = None
        layers.zero_grad()
        out.backward(gradient)

    def attention() -> None:
        found = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        torch.autograd.grad(found, (q, k, v), of_attention)

    def products() -> None:
        for left, right in pairs:
            (narrow if fp8 else torch.mm)(left, right)

    return {"layers": whole, "attention": attention, "product": products}


def measured(shape: tuple[int, ...], compiled: bool, dtype: str, asked: str, device: str) -> dict[str, str]:
    """A row of the table without its case; on a CPU, which is only tried, without what was measured."""
    torch.compiler.reset()  # Otherwise the next shape would be compiled for any shape.
    torch.manual_seed(0)
    hidden, _, heads, _, size, _, seq, micro_batch = shape
    count, fp8 = 3 if compiled else 2, dtype == "fp8"
    x = torch.randn(micro_batch, seq, hidden, device=device, dtype=torch.bfloat16, requires_grad=True)
    layers = nn.Sequential(*(Layer(shape, fp8) for _ in range(count))).to(x.device, x.dtype)
    for layer in layers if compiled else ():
        layer.compile()
    steps, first = steps_of(layers, heads, size, x, fp8), compiled and asked == "flash2"
    chosen = {"layers": True, "attention": first or not (compiled or fp8), "product": first or fp8}
    row = {"dtype": dtype}
    with sdpa_kernel(BACKENDS[asked] if device == "cuda" else SDPBackend.MATH):
        for name in (name for name, wanted in chosen.items() if wanted):
            repeated(steps[name], 2)
            if device == "cpu":
                continue
            time_us, attention, (clock, power) = looped(steps[name], SECONDS[name])
            if name == "layers":
                row |= {"attention": attention, "clock_MHz": clock, "power_W": power}
                row |= {f"{part}_us": f"{time_us[part] / count:.1f}" for part in PARTS}
            else:
                row |= {f"alone_{part}_us": f"{time_us[part]:.1f}" for part in PARTS if part.startswith(name)}
                row |= {f"alone_{name}_MHz": clock, f"alone_{name}_W": power}  # Products': not in the table.
    return row


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--out", type=Path, required=True, help="CSV file of the rows")
    parser.add_argument("--cpu", action="store_true", help="try tiny layers on the CPU, measuring nothing")
    given = parser.parse_args()
    device, cases = ("cpu", TINY) if given.cpu else ("cuda", CASES)
    with given.out.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="", extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        for number, (case, compiled, dtype, asked) in enumerate(runs(cases), 1):
            row = dict(zip(COLUMNS, (f"hc{number:02d}", case, *cases[case]), strict=False))
            writer.writerow(row | measured(cases[case], compiled, dtype, asked, device))
            print(f"{case}, {'compiled' if compiled else 'eager'}, {dtype}, {asked}", flush=True)
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
