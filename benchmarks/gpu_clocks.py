"""Kernels in loops of layers and alone, with the GPU's clock, as kept in `validation/tables/h100_clocks.csv`.

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
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.profiler import ProfilerActivity, profile


class Shape(NamedTuple):
    """A rank's layer and its micro-batch."""

    case: str
    hidden: int
    ffn: int
    heads: int
    kv_heads: int
    head_dim: int
    gated: int
    seq: int
    micro_batch: int


class Run(NamedTuple):
    """What a row of the table measures."""

    shape: Shape
    compiled: bool
    dtype: str
    asked: str
    alone: tuple[str, ...]


class Loop(NamedTuple):
    """What was seen of a loop: microseconds of a pass by part, whose attention ran, the clock and the power."""

    time_us: dict[str, float]
    attention: str = ""
    clock_MHz: str = ""  # noqa: N815
    power_W: str = ""  # noqa: N815


SHAPES = (
    Shape("llama-1b", 2048, 8192, 32, 8, 64, 1, 2048, 4), Shape("llama-8b", 4096, 14336, 32, 8, 128, 1, 8192, 1),
    Shape("llama-8b at 2k", 4096, 14336, 32, 8, 128, 1, 2048, 4),
    Shape("llama-70b", 8192, 28672, 64, 8, 128, 1, 8192, 1),
    Shape("gpt3-175b tp4", 12288, 12288, 24, 24, 128, 0, 2048, 2),
    Shape("1.3b at 4k", 2048, 8192, 32, 32, 64, 1, 4096, 4),
    Shape("llama-405b tp8", 16384, 6656, 16, 1, 128, 1, 8192, 1),
)  # fmt: skip
TINY = (Shape("tiny", 64, 128, 4, 2, 16, 1, 32, 2), Shape("tiny without gate", 64, 128, 4, 1, 16, 0, 32, 2))
COMPILED = ("llama-1b", "llama-8b", "llama-8b at 2k", "llama-70b", "gpt3-175b tp4", "1.3b at 4k", "tiny without gate")
EAGER: dict[str, tuple[str, ...]] = {
    "llama-1b": ("cudnn",), "llama-8b": ("cudnn", "flash2"), "llama-8b at 2k": ("cudnn",), "llama-70b": ("cudnn",),
    "gpt3-175b tp4": ("cudnn", "flash2"), "llama-405b tp8": (), "tiny": ("cudnn",),
}  # fmt: skip
"""Attention beside products in fp8; each of these cases also runs in bf16, with cuDNN's attention."""
BACKENDS = {"flash2": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}
SECONDS = {"layers": 1.0, "attention": 0.6, "product": 0.8}
PROFILED = 4
PARTS = ("product", "attention_forward", "attention_backward", "other")
COLUMNS = (
    "row_id", *Shape._fields, "dtype", "attention", *(f"{part}_us" for part in PARTS), "clock_MHz", "power_W",
    "alone_product_us", "alone_product_MHz", "alone_attention_forward_us", "alone_attention_backward_us",
    "alone_attention_MHz", "alone_attention_W",
)  # fmt: skip


def runs(shapes: tuple[Shape, ...]) -> Iterator[Run]:
    """Those of compiled layers, then those of eager ones."""
    for shape in shapes:
        if shape.case in COMPILED:
            yield Run(shape, True, "bf16", "flash2", ("product", "attention"))
            yield Run(shape, True, "bf16", "cudnn", ())
    for shape in shapes:
        if shape.case in EAGER:
            yield Run(shape, False, "bf16", "cudnn", ("attention",))
            for asked in EAGER[shape.case]:
                yield Run(shape, False, "fp8", asked, ("product",))


@cache
def one(device: torch.device) -> Tensor:
    """The scale of every tensor."""
    return torch.ones((), device=device)


def narrow(a: Tensor, b: Tensor, fast: bool = False) -> Tensor:
    """The product of matrices in fp8, in bf16; `b` lies in memory column by column."""
    if a.device.type == "cpu":
        return a.bfloat16() @ b.bfloat16()
    scale = one(a.device)
    return torch._scaled_mm(a, b, scale_a=scale, scale_b=scale, out_dtype=torch.bfloat16, use_fast_accum=fast)


def by_column(x: Tensor) -> Tensor:
    """The same matrix, column by column in memory."""
    return x.t().contiguous().t()


class Product(torch.autograd.Function):
    """A linear layer in E4M3, its gradients in E5M2; each tensor is cast as it is."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.shape = x.shape
        x, weight = (side.to(torch.float8_e4m3fn) for side in (x.reshape(-1, x.shape[-1]), weight))
        ctx.save_for_backward(x, weight)
        return narrow(x, weight.t(), fast=True).view(*ctx.shape[:-1], -1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        x, weight = ctx.saved_tensors
        gradient = gradients[0].reshape(-1, len(weight)).to(torch.float8_e5m2)
        of_input = narrow(gradient, by_column(weight)).view(ctx.shape)
        return of_input, narrow(gradient.t().contiguous(), by_column(x))


class NarrowLinear(nn.Linear):
    """With products in fp8."""

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = Product.apply(x, self.weight)
        return out


class Layer(nn.Module):
    """A rank's part of a layer, without positions and collectives."""

    def __init__(self, shape: Shape, linear: type[nn.Linear]) -> None:
        super().__init__()
        self.shape, h, wide = shape, shape.hidden, shape.heads * shape.head_dim
        self.widths = [wide, *[shape.kv_heads * shape.head_dim] * 2]
        self.before, self.between = nn.RMSNorm(h), nn.RMSNorm(h)
        sides = ((h, sum(self.widths)), (wide, h), (h, shape.ffn * (1 + shape.gated)), (shape.ffn, h))
        self.qkv, self.out, self.up, self.down = (linear(*side, bias=False) for side in sides)

    def forward(self, x: Tensor) -> Tensor:
        """What comes out for `x` (sequences, tokens, hidden)."""
        count, tokens, _ = x.shape
        parts = self.qkv(self.before(x)).split(self.widths, -1)
        q, k, v = (part.view(count, tokens, -1, self.shape.head_dim).transpose(1, 2) for part in parts)
        several = self.shape.heads // self.shape.kv_heads
        if several > 1:
            k, v = (side[:, :, None].expand(-1, -1, several, -1, -1).reshape(q.shape) for side in (k, v))
        found = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(found.transpose(1, 2).reshape(count, tokens, -1))
        inner = self.up(self.between(x))
        if self.shape.gated:
            gate, value = inner.chunk(2, -1)
            inner = F.silu(gate) * value
        else:
            inner = F.gelu(inner, approximate="tanh")
        out: Tensor = x + self.down(inner)
        return out


def part_of(kernel: str) -> str:
    """What a kernel belongs to."""
    low = kernel.lower()
    if low.startswith("triton"):  # First, because Inductor's kernels are named after all that they fuse.
        return "other"
    if "flash" in low or "fmha" in low or ("cudnn" in low and "sdpa" in low):
        return (
            "attention_backward" if any(word in low for word in ("bwd", "bprop", "backward")) else "attention_forward"
        )
    if any(word in low for word in ("gemm", "nvjet", "cutlass", "xmma")):
        return "product"
    return "driver" if "memcpy" in low or "memset" in low else "other"


def looped(step: Callable[[], object], seconds: float, device: str) -> Loop:
    """Repeats a step for so long and until the clock was read, then profiles some more."""

    def several(times: int) -> None:
        for _ in range(times):
            step()
        if device == "cuda":
            torch.cuda.synchronize()

    several(2)
    if device == "cpu":
        return Loop({})
    start = time.perf_counter()
    while time.perf_counter() - start < seconds:
        several(3)
    query = ("--id=0", "--query-gpu=clocks.sm,power.draw", "--format=csv,noheader,nounits")
    with subprocess.Popen(("nvidia-smi", *query), stdout=subprocess.PIPE, text=True) as reading:
        while reading.poll() is None:
            several(3)
        clock, power = reading.communicate()[0].strip().split(", ")
    with profile(activities=[ProfilerActivity.CUDA]) as found:
        several(PROFILED)
    total: Counter[str] = Counter()
    attention = ""
    for event in found.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            part = part_of(event.name)
            total[part] += event.device_time / PROFILED
            if part.startswith("attention"):
                attention = "cudnn" if "cudnn" in event.name.lower() else "flash2"
    return Loop(dict(total), attention, clock, power)


def whole(layers: list[Layer], x: Tensor) -> Callable[[], None]:
    """Forward and backward of layers in a row."""
    gradient, inputs = torch.randn_like(x), (x, *(weight for layer in layers for weight in layer.parameters()))

    def step() -> None:
        y = x
        for layer in layers:
            y = layer(y)
        for given in inputs:
            given.grad = None
        y.backward(gradient)

    return step


def attention_alone(like: Tensor, shape: Shape) -> Callable[[], None]:
    """Forward and backward of one layer's attention, all heads with keys and values of their own."""
    sides = [like.new_empty(shape.micro_batch, shape.heads, shape.seq, shape.head_dim).normal_() for _ in range(4)]
    inputs, gradient = [side.requires_grad_() for side in sides[:3]], sides[3]

    def step() -> None:
        out = F.scaled_dot_product_attention(*inputs, is_causal=True)
        torch.autograd.grad(out, inputs, gradient)

    return step


def products_alone(layer: Layer, rows: int, dtype: str) -> Callable[[], None]:
    """All three products of each linear layer, of operands cast and laid out before."""
    pairs: list[tuple[Tensor, Tensor]] = []
    for linear in (module for module in layer.modules() if isinstance(module, nn.Linear)):
        weight = linear.weight.detach()
        x, gradient = (weight.new_empty(rows, width).normal_() for width in (weight.shape[1], weight.shape[0]))
        if dtype == "fp8":
            x, weight, gradient = (
                x.to(torch.float8_e4m3fn),
                weight.to(torch.float8_e4m3fn),
                gradient.to(torch.float8_e5m2),
            )
            pairs += [(x, weight.t()), (gradient, by_column(weight)), (gradient.t().contiguous(), by_column(x))]
        else:
            pairs += [(x, weight.t()), (gradient, weight), (gradient.t(), x)]
    multiply = narrow if dtype == "fp8" else torch.mm

    def step() -> None:
        for left, right in pairs:
            multiply(left, right)

    return step


def measured(run: Run, device: str) -> dict[str, str]:
    """What a row of the table says beside the shape."""
    shape, fp8 = run.shape, run.dtype == "fp8"
    torch.compiler.reset()  # Otherwise the next shape would be compiled for any shape.
    torch.manual_seed(0)
    count = 3 if run.compiled else 2
    layers = [Layer(shape, NarrowLinear if fp8 else nn.Linear).to(device, torch.bfloat16) for _ in range(count)]
    if run.compiled:
        for layer in layers:
            layer.compile()
    x = torch.randn(shape.micro_batch, shape.seq, shape.hidden, device=device, dtype=torch.bfloat16, requires_grad=True)
    steps = {"layers": whole(layers, x)}
    if "attention" in run.alone:
        steps["attention"] = attention_alone(x.detach(), shape)
    if "product" in run.alone:
        steps["product"] = products_alone(layers[0], shape.micro_batch * shape.seq, run.dtype)
    with sdpa_kernel(SDPBackend.MATH if device == "cpu" else BACKENDS[run.asked]):
        loops = {name: looped(step, SECONDS[name], device) for name, step in steps.items()}
    inside = loops.pop("layers")
    row = {"dtype": run.dtype, "attention": inside.attention}
    row |= {f"{part}_us": f"{inside.time_us[part] / count:.1f}" for part in PARTS if part in inside.time_us}
    row |= {"clock_MHz": inside.clock_MHz, "power_W": inside.power_W}
    for name, loop in loops.items():
        row |= {f"alone_{part}_us": f"{us:.1f}" for part, us in loop.time_us.items() if part.startswith(name)}
        row[f"alone_{name}_MHz"] = loop.clock_MHz
        if name == "attention":
            row["alone_attention_W"] = loop.power_W
    return row


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--out", type=Path, required=True, help="CSV file of the rows")
    parser.add_argument("--cpu", action="store_true", help="try tiny layers on the CPU, measuring nothing")
    given = parser.parse_args()
    device, shapes = ("cpu", TINY) if given.cpu else ("cuda", SHAPES)
    print(f"{'CPU' if given.cpu else torch.cuda.get_device_name()}, torch {torch.__version__}")
    with given.out.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="", lineterminator="\n")
        writer.writeheader()
        for number, run in enumerate(runs(shapes), 1):
            row = measured(run, device)
            writer.writerow({"row_id": f"hc{number:02d}", **run.shape._asdict(), **row})
            print(f"{run.shape.case}, {'compiled' if run.compiled else 'eager'}, {run.dtype}, {run.asked}", flush=True)
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
