"""Kernels inside nanotron's Llama layers on one GPU, as kept in `check/validation/tables/h100_layers.csv`.

    python benchmarks/gpu_layers.py -o layers.csv

A layer as huggingface/nanotron writes it at commit 67c5ebb (models/llama.py, parallel/tensor_parallel/functional.py,
optim/gradient_accumulator.py; FlashAttention's Triton kernels for norms and rotary embedding, of pairs of neighbours
here), with the shapes of a middle tensor-parallel rank and without collectives: buffers that were gathered hold random
numbers. Forward, backward and the sum of gradients in fp32 by torch.profiler, after three passes, the mean of two.
"""

from __future__ import annotations

import argparse
import csv
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
import triton
import triton.language as tl
from torch.profiler import ProfilerActivity, profile

SEQ = 4096
MODELS = {"1.34": (2048, 32, 8192), "3.57": (3072, 32, 8192), "8.86": (4096, 32, 14336), "80": (8192, 64, 28672)}
LAYERS = (
    ("1.34", 1, 1), ("1.34", 1, 4), ("1.34", 2, 4), ("1.34", 4, 4), ("3.57", 1, 1), ("3.57", 1, 2), ("3.57", 2, 3),
    ("3.57", 4, 4), ("3.57", 4, 9), ("3.57", 8, 18), ("3.57", 16, 40), ("8.86", 1, 1), ("8.86", 4, 2), ("8.86", 4, 4),
    ("8.86", 8, 8), ("80", 4, 1), ("80", 8, 1),
)  # fmt: skip
"""Model in billions of parameters, tensor-parallel ranks, sequences of a micro-batch."""
PRODUCTS = ("gemm", "nvjet", "cutlass", "splitk", "cublas")
REPEATS = 2
BUFFERS: dict[str, torch.Tensor] = {}
WARPS = [triton.Config({}, num_warps=warps) for warps in (1, 2, 4, 8, 16, 32)]


@triton.autotune(configs=WARPS, key=["N"])
@triton.jit
def rms_forward(X, Y, W, R, stride, N, eps, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    row, cols = tl.program_id(0), tl.arange(0, BLOCK)
    ok = cols < N
    x = tl.load(X + row * stride + cols, mask=ok, other=0.0).to(tl.float32)
    r = 1 / tl.sqrt(tl.sum(x * x, axis=0) / N + eps)
    tl.store(R + row, r)
    w = tl.load(W + cols, mask=ok, other=0.0).to(tl.float32)
    tl.store(Y + row * stride + cols, x * r * w, mask=ok)


@triton.autotune(configs=WARPS, key=["N"])
@triton.jit
def rms_backward(X, W, DY, DX, DW, R, stride, M, N, per, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    pid, cols = tl.program_id(0), tl.arange(0, BLOCK)
    ok = cols < N
    w = tl.load(W + cols, mask=ok, other=0.0).to(tl.float32)
    dw = tl.zeros((BLOCK,), dtype=tl.float32)
    end = min((pid + 1) * per, M)
    for row in range(pid * per, end):
        x = tl.load(X + row * stride + cols, mask=ok, other=0).to(tl.float32)
        dy = tl.load(DY + row * stride + cols, mask=ok, other=0).to(tl.float32)
        r = tl.load(R + row)
        hat, wdy = x * r, w * dy
        dw += dy * hat
        tl.store(DX + row * stride + cols, (wdy - hat * (tl.sum(hat * wdy, axis=0) / N)) * r, mask=ok)
    tl.store(DW + pid * N + cols, dw, mask=ok)


@triton.jit
def rotary(O, X, C, S, seqlen, dim, ob, os_, oh, xb, xs, xh, BK: tl.constexpr, BM: tl.constexpr, CONJ: tl.constexpr):  # type: ignore[no-untyped-def] # noqa: E741
    pm, pb, ph = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    X, O = X + pb * xb + ph * xh, O + pb * ob + ph * oh  # noqa: E741
    rm, rk = pm * BM + tl.arange(0, BM), tl.arange(0, BK)
    swap, rep = rk + ((rk + 1) % 2) * 2 - 1, tl.arange(0, BK) // 2
    okm, half = rm[:, None] < seqlen, dim // 2
    c = tl.load(C + rm[:, None] * half + rep[None, :], mask=okm & (rep[None, :] < half), other=1.0).to(tl.float32)
    s = tl.load(S + rm[:, None] * half + rep[None, :], mask=okm & (rep[None, :] < half), other=0.0).to(tl.float32)
    x0 = tl.load(X + rm[:, None] * xs + rk[None, :], mask=okm & (rk[None, :] < dim), other=0.0).to(tl.float32)
    x1 = tl.load(X + rm[:, None] * xs + swap[None, :], mask=okm & (swap[None, :] < dim), other=0.0).to(tl.float32)
    if CONJ:
        s = -s
    out = tl.where(rk[None, :] % 2 == 0, x0 * c - x1 * s, x0 * c + x1 * s)
    tl.store(O + rm[:, None] * os_ + rk[None, :], out, mask=okm & (rk[None, :] < dim))


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, inplace: bool, conj: bool) -> torch.Tensor:
    """Rotary embedding in a kernel, over its input or not."""
    b, s, h, d = x.shape
    out = x if inplace else torch.empty_like(x)
    rotary[(triton.cdiv(s, 4), b, h)](
        out, x, cos, sin, s, d, *out.stride()[:3], *x.stride()[:3], BK=max(32, triton.next_power_of_2(d)), BM=4,
        CONJ=conj,
    )  # fmt: skip
    return out


class Norm(torch.autograd.Function):
    """RMSNorm as FlashAttention's Triton kernels have it."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        ctx.shape = x.shape
        x = x.reshape(-1, x.shape[-1])
        y, r = torch.empty_like(x), torch.empty(len(x), device=x.device)
        rms_forward[(len(x),)](x, y, weight, r, x.stride(0), x.shape[1], 1e-5, BLOCK=triton.next_power_of_2(x.shape[1]))
        ctx.save_for_backward(x, weight, r)
        return y.reshape(ctx.shape)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        x, weight, r = ctx.saved_tensors
        m, n = x.shape
        dx, programs = torch.empty_like(x), torch.cuda.get_device_properties(0).multi_processor_count
        dw = torch.empty((programs, n), device=x.device)
        rms_backward[(programs,)](
            x, weight, gradients[0].reshape(m, n), dx, dw, r, x.stride(0), m, n, math.ceil(m / programs),
            BLOCK=triton.next_power_of_2(n),
        )  # fmt: skip
        return dx.reshape(ctx.shape), dw.sum(0).to(weight.dtype)


class RotateQueries(torch.autograd.Function):
    """Into a new tensor."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(cos, sin)
        return rotate(x, cos, sin, False, False)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        return rotate(gradients[0], *ctx.saved_tensors, False, True), None, None


class RotateKeys(torch.autograd.Function):
    """In place, of keys beside values."""

    @staticmethod
    def forward(ctx: Any, kv: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(cos, sin)
        rotate(kv[:, :, 0], cos, sin, True, False)
        return kv

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        rotate(gradients[0][:, :, 0], *ctx.saved_tensors, True, True)
        return gradients[0], None, None


def buffer(name: str, shape: tuple[int, ...]) -> torch.Tensor:
    """What a collective would have filled."""
    count = math.prod(shape)
    if name not in BUFFERS or BUFFERS[name].numel() < count:
        BUFFERS.pop(name, None)
        BUFFERS[name] = torch.randn(count, device="cuda", dtype=torch.bfloat16)
    return BUFFERS[name][:count].view(shape)


def in_pieces(own: torch.Tensor, whole: torch.Tensor, matrix: torch.Tensor, tp: int) -> torch.Tensor:
    """A product of the rank's own part, then of those before and after it."""
    part, rest, rank = own.shape[0], own.shape[1:-1], tp // 2
    out = torch.empty(part * tp, *rest, matrix.shape[1], device=own.device, dtype=own.dtype)
    cuts = ((rank * part, (rank + 1) * part, own), (0, rank * part, None), ((rank + 1) * part, tp * part, None))
    for start, end, given in cuts:
        if end > start:
            read = whole[start:end] if given is None else given
            torch.mm(read.reshape(-1, read.shape[-1]), matrix, out=out[start:end].view(-1, matrix.shape[1]))
    return out


class Column(torch.autograd.Function):
    """_ColumnLinearAsyncCommunication, REDUCE_SCATTER, tp_recompute_allgather."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, w: torch.Tensor, tp: int) -> torch.Tensor:
        ctx.tp = tp
        ctx.save_for_backward(x.contiguous(), w)
        if tp == 1:
            return F.linear(x, w)
        return in_pieces(x, buffer("allgather", (x.shape[0] * tp, *x.shape[1:])), w.t(), tp)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        (x, w), tp = ctx.saved_tensors, ctx.tp
        whole = x if tp == 1 else buffer("allgather", (x.shape[0] * tp, *x.shape[1:]))
        dx = gradients[0].matmul(w)
        gradient = gradients[0].contiguous().view(-1, w.shape[0])
        own = dx if tp == 1 else torch.empty_like(x)
        return own, gradient.t().matmul(whole.view(-1, w.shape[1])), None


class Row(torch.autograd.Function):
    """_RowLinearAsyncCommunication."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, w: torch.Tensor, tp: int) -> torch.Tensor:
        ctx.tp = tp
        ctx.save_for_backward(x, w)
        out = F.linear(x, w)
        return out if tp == 1 else torch.empty_like(out[: len(out) // tp])

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        (x, w), tp, gradient = ctx.saved_tensors, ctx.tp, gradients[0].contiguous()
        whole = gradient if tp == 1 else buffer("allgather2", (gradient.shape[0] * tp, *gradient.shape[1:]))
        dx = gradient.matmul(w) if tp == 1 else in_pieces(gradient, whole, w, tp)
        return dx, whole.reshape(-1, w.shape[0]).t().matmul(x.contiguous().view(-1, w.shape[1])), None


class Layer(torch.nn.Module):
    """LlamaDecoderLayer of a rank."""

    def __init__(self, hidden: int, heads: int, ffn: int, tp: int) -> None:
        super().__init__()
        self.tp, self.heads, self.size = tp, heads // tp, hidden // heads
        shapes = ((hidden,), (hidden,), (3 * hidden // tp, hidden), (hidden, hidden // tp), (2 * ffn // tp, hidden),
                  (hidden, ffn // tp))  # fmt: skip
        weights = (torch.randn(*shape, device="cuda", dtype=torch.bfloat16) * 0.02 for shape in shapes)
        self.weights = torch.nn.ParameterList(weights)
        angles = torch.rand(SEQ, self.size // 2, device="cuda")
        self.cos, self.sin = angles.cos().bfloat16(), angles.sin().bfloat16()

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        norm, later_norm, qkv, out, gate_up, down = self.weights
        made = Column.apply(Norm.apply(x, norm), qkv, self.tp)
        seq, samples, _ = made.shape
        q, k, v = made.view(seq, samples, 3, self.heads, self.size).permute(2, 1, 0, 3, 4).contiguous()
        kv = torch.cat([k.unsqueeze(0), v.unsqueeze(0)], dim=0).permute(1, 2, 0, 3, 4).contiguous()
        q, kv = RotateQueries.apply(q, self.cos, self.sin), RotateKeys.apply(kv, self.cos, self.sin)
        k, v = torch.split(kv, 1, dim=2)
        flat = [one.view(samples * seq, self.heads, self.size) for one in (q, k, v)]
        ends = [torch.zeros(samples + 1, dtype=torch.int32, device="cuda") for _ in range(2)]
        for one in ends:
            torch.cumsum(mask.sum(-1, dtype=torch.int32), dim=0, dtype=torch.int32, out=one[1:])
        found = torch.ops.aten._flash_attention_forward(*flat, *ends, seq, seq, 0.0, True, False)[0]
        turned = found.contiguous().view(samples, seq, self.heads * self.size).transpose(0, 1)
        x = Row.apply(turned, out, self.tp) + x
        gate, up = torch.split(Column.apply(Norm.apply(x, later_norm), gate_up, self.tp), len(gate_up) // 2, dim=-1)
        return Row.apply(F.silu(gate) * up, down, self.tp) + x


def part_of(kernel: str) -> str:
    """What a kernel of a layer belongs to."""
    low = kernel.lower()
    kinds = {
        "attention": "flash" in low,
        "norm": "rms_" in low or ("reduce_kernel" in low and "float" in low),
        "rotary": "rotary" in low,
        "product": any(word in low for word in PRODUCTS),
        "joined": "catarray" in low and "vectorized" in low,
        "copies": "catarray" in low or ("direct_copy" in low and "nocast" in low) or "memcpy" in low,
        "gate": any(word in low for word in ("silu", "binaryfunctor", "mulfunctor")),
        "residual": "functor_add" in low,
    }
    return next((kind for kind, so in kinds.items() if so), "other")


def profiled(steps: tuple[Callable[[], Any], ...]) -> list[dict[str, float]]:
    """Microseconds of each step by kernel, told apart by spinning kernels between them."""
    with profile(activities=[ProfilerActivity.CUDA]) as found:
        for step in steps * REPEATS:
            torch.cuda._sleep(100)
            step()
        torch.cuda._sleep(100)
        torch.cuda.synchronize()
    events = sorted(
        (e for e in found.events() if str(e.device_type).endswith("CUDA")), key=lambda e: e.time_range.start
    )
    taken: list[dict[str, float]] = [{} for _ in steps]
    at = -1
    for event in events:
        if "spin" in event.name:
            at += 1
        elif 0 <= at < REPEATS * len(steps):
            here, time_us = taken[at % len(steps)], (event.time_range.end - event.time_range.start) / REPEATS
            here[event.name] = here.get(event.name, 0.0) + time_us
    return taken


def measured(model: str, tp: int, micro_batch: int) -> list[tuple[str, str, float]]:
    """(part, direction, microseconds) of one layer."""
    hidden, heads, ffn = MODELS[model]
    layer = Layer(hidden, heads, ffn, tp)
    x = torch.randn(SEQ // tp, micro_batch, hidden, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    mask, gradient = torch.ones(micro_batch, SEQ, dtype=torch.bool, device="cuda"), torch.randn_like(x) * 0.01
    totals, made = [torch.zeros_like(weight, dtype=torch.float) for weight in layer.weights], {}

    def forward() -> None:
        x.grad = None
        made["out"] = layer(x, mask)

    def backward() -> None:
        made.pop("out").backward(gradient)

    def add() -> None:
        for weight, total in zip(layer.weights, totals, strict=True):
            total.add_(weight.grad)
            weight.grad = None

    steps = (forward, backward, add)
    for step in steps * 3:
        step()
    rows: list[tuple[str, str, float]] = []
    for direction, kernels in zip(("forward", "backward", "sum"), profiled(steps), strict=True):
        parts: dict[str, float] = {}
        for kernel, time_us in kernels.items():
            part = "sum" if direction == "sum" else part_of(kernel)
            parts[part] = parts.get(part, 0.0) + time_us
        rows += [(part, "backward" if direction == "sum" else direction, time_us) for part, time_us in parts.items()]
    return rows


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--out", type=Path, required=True, help="CSV file of the rows")
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    with parser.parse_args().out.open("w", newline="") as file:
        writer, number = csv.writer(file, lineterminator="\n"), 0
        names = ("hidden", "heads", "ffn", "tp", "micro_batch", "part", "direction", "time_us")
        writer.writerow(["row_id", "model_B", *names])
        for model, tp, micro_batch in LAYERS:
            for part, direction, time_us in measured(model, tp, micro_batch):
                number += 1
                shape = (*MODELS[model], tp, micro_batch)
                writer.writerow([f"hl{number:03d}", model, *shape, part, direction, f"{time_us:.1f}"])
            print(f"{model}B tp{tp} mb{micro_batch}", flush=True)
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
