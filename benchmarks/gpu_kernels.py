"""Kernels alone on one GPU at shapes of training, as kept in `check/validation/tables/h100_kernels.csv`.

    python benchmarks/gpu_kernels.py -o kernels.csv
    python benchmarks/gpu_kernels.py -o losses.csv --only losses operations

All three products of linear layers in bf16 and, where the device has it, fp8; attention; norms, gates, losses and
updates as PyTorch runs them; streams. Random numbers; each the median over repeats for 60 ms with the cache emptied
between them (`triton.testing.do_bench`). `lockstep bench device` measures fewer of them, and fits a curve.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch._functorch import config as functorch
from torch.nn.attention import SDPBackend, sdpa_kernel
from triton.testing import do_bench

ROWS = (2048, 8192, 16384)
LAYERS = (
    (4096, 4096), (28672, 4096), (4096, 14336), (6144, 4096), (8192, 8192), (7168, 8192), (8192, 3584), (2048, 2048),
    (16384, 2048), (128256, 2048),
)  # fmt: skip
FP8_LAYERS = ((4096, 4096), (28672, 4096), (4096, 14336), (8192, 8192))
ATTENTION = (
    (4, 32, 2048, 64), (1, 32, 8192, 64), (4, 32, 2048, 128), (2, 32, 4096, 128), (1, 32, 8192, 128),
    (1, 16, 16384, 128),
)  # fmt: skip
BACKENDS = {"flash2": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}
EXPERTS = ((8, 16384, 14336, 4096), (64, 32768, 1408, 2048), (128, 32768, 768, 2048), (16, 65536, 8192, 5120))
STREAM = 2**28
Row = tuple[str, str, Callable[[], Any]]


def drawn(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    """Random numbers on the GPU."""
    return torch.randn(*shape, device="cuda", dtype=dtype)


def products() -> Iterator[Row]:
    """Forward, gradient of the input, gradient of the weight; and sums of that in fp32 inside the product."""
    for m in ROWS:
        for n, k in LAYERS:
            x, weight, gradient = drawn(m, k), drawn(n, k), drawn(m, n)
            shape = f"{m}x{n}x{k}"
            yield "matmul.forward", shape, lambda x=x, weight=weight: x @ weight.t()
            yield "matmul.input-grad", shape, lambda gradient=gradient, weight=weight: gradient @ weight
            yield "matmul.weight-grad", shape, lambda gradient=gradient, x=x: gradient.t() @ x
            if n * k <= 4096 * 28672:
                total = torch.zeros(n, k, device="cuda")
                yield (
                    "accumulated.fp32", shape,
                    lambda total=total, gradient=gradient, x=x: torch.addmm(
                        total, gradient.t(), x, out_dtype=torch.float32, out=total
                    ),
                )  # fmt: skip


def narrow_products() -> Iterator[Row]:
    """The same in fp8, with one scale per tensor and per row."""
    for m in ROWS[1:]:
        for n, k in FP8_LAYERS:
            for what, (a, b, c) in {"forward": (m, n, k), "inputgrad": (m, k, n), "weightgrad": (n, k, m)}.items():
                left, right = (drawn(rows, c).to(torch.float8_e4m3fn) for rows in (a, b))
                for kind, sides in (("tensorwise", ((), ())), ("rowwise", ((a, 1), (1, b)))):
                    scales = [torch.ones(side, device="cuda") for side in sides]
                    yield (
                        f"fp8.{kind}.{what}", f"{a}x{b}x{c}",
                        lambda left=left, right=right, scales=scales, fast=what == "forward": torch._scaled_mm(
                            left, right.t(), scale_a=scales[0], scale_b=scales[1], out_dtype=torch.bfloat16,
                            use_fast_accum=fast,
                        ),
                    )  # fmt: skip


def attention() -> Iterator[Row]:
    """Causal attention by FlashAttention-2 and cuDNN."""
    for name, backend in BACKENDS.items():
        for shape in ATTENTION:
            query, key, value = (drawn(*shape).requires_grad_() for _ in range(3))
            with sdpa_kernel(backend):
                out, gradient = F.scaled_dot_product_attention(query, key, value, is_causal=True), drawn(*shape)
                said, every = "x".join(map(str, shape)), (query, key, value)
                yield (
                    f"attention.{name}.forward", said,
                    lambda every=every: F.scaled_dot_product_attention(*every, is_causal=True),
                )  # fmt: skip
                yield f"attention.{name}.backward", said, again(out, every, gradient)


def again(out: torch.Tensor, inputs: tuple[torch.Tensor, ...], gradient: torch.Tensor) -> Callable[[], Any]:
    """The backward pass of `out`, over and over."""
    return lambda: torch.autograd.grad(out, inputs, gradient, retain_graph=True)


def written_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """RMSNorm as transformers writes it."""
    wide = x.float()
    return weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype)


def elementwise() -> Iterator[Row]:
    """Norms, gates and the loss."""
    for m, h in ((8192, 2048), (8192, 4096), (16384, 8192)):
        x, weight, gradient = drawn(m, h).requires_grad_(), drawn(h).requires_grad_(), drawn(m, h)
        for name, norm in (("eager", written_norm), ("F", lambda x, w: F.rms_norm(x, w.shape, w, 1e-5))):
            yield f"rmsnorm.{name}.forward", f"{m}x{h}", lambda norm=norm, x=x, weight=weight: norm(x, weight)
            yield f"rmsnorm.{name}.backward", f"{m}x{h}", again(norm(x, weight), (x, weight), gradient)
    for m, h in ((8192, 8192), (8192, 14336)):
        gate, up, gradient = drawn(m, h).requires_grad_(), drawn(m, h).requires_grad_(), drawn(m, h)
        yield "swiglu.eager.forward", f"{m}x{h}", lambda gate=gate, up=up: F.silu(gate) * up
        yield "swiglu.eager.backward", f"{m}x{h}", again(F.silu(gate) * up, (gate, up), gradient)


class OfParts(torch.autograd.Function):
    """The loss of a rank's part of the vocabulary, in Megatron-LM's operations (core/tensor_parallel/cross_entropy.py),
    without its all-reduces."""

    @staticmethod
    def forward(context: Any, logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        logits = logits - logits.max(dim=-1)[0].unsqueeze(-1)
        picked = logits[torch.arange(len(target), device=target.device), target].clone()
        exponents = torch.exp(logits, out=logits)
        total = exponents.sum(dim=-1)
        context.save_for_backward(exponents.div_(total.unsqueeze(-1)), target)
        return torch.log(total) - picked

    @staticmethod
    def backward(context: Any, *gradients: torch.Tensor) -> Any:
        inner, target = context.saved_tensors
        inner = inner.clone()  # In place there; here the pass is run again.
        inner[torch.arange(len(target), device=target.device), target] -= 1.0
        return inner.mul_(gradients[0].unsqueeze(-1)), None


def losses() -> Iterator[Row]:
    """Cross entropies, on fp32 logits as given and on bf16 ones that are converted first."""
    logits, target = drawn(4096, 128256, dtype=torch.float32).requires_grad_(), torch.arange(4096, device="cuda")
    loss = F.cross_entropy(logits, target)
    yield "cross-entropy.fp32.forward", "4096x128256", lambda at=logits: F.cross_entropy(at, target)
    yield "cross-entropy.fp32.backward", "4096x128256", again(loss, (logits,), torch.ones_like(loss))
    del logits, loss
    functorch.donated_buffer = False  # The backward pass runs again and again.
    kinds: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
        "eager": lambda logits, target: F.cross_entropy(logits.float(), target),
        "in-place": lambda logits, target: OfParts.apply(logits.float(), target).mean(),
        "compiled": torch.compile(lambda logits, target: F.cross_entropy(logits.float(), target), dynamic=False),
    }
    for rows, vocabulary in ((8192, 32000), (4096, 128256), (2048, 262144)):
        target = torch.arange(rows, device="cuda")
        for kind, ask in kinds.items():
            narrow = drawn(rows, vocabulary).requires_grad_()
            found, shape = ask(narrow, target), f"{rows}x{vocabulary}"
            yield f"cross-entropy.{kind}.forward", shape, lambda ask=ask, at=narrow, target=target: ask(at, target)
            yield f"cross-entropy.{kind}.backward", shape, again(found, (narrow,), torch.ones_like(found))


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotary embedding as transformers writes it."""
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), dim=-1) * sin


def softened(scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Scores through Megatron-LM's softmax where its own kernel does not run (model/fused_softmax.py)."""
    return torch.softmax((scores.float() * 2.0).masked_fill_(mask, -10000.0), dim=-1).to(scores.dtype)


def operations() -> Iterator[Row]:
    """PyTorch's operations one after another: rotary embedding, sums, GELU, LayerNorm, softmax of scores."""
    cos, sin = drawn(2048, 128), drawn(2048, 128)
    for batch, heads in ((4, 32), (1, 16)):
        x, shape = drawn(batch, heads, 2048, 128).requires_grad_(), f"{batch}x{heads}x2048x128"
        yield "rotary.eager.forward", shape, lambda x=x: rotated(x, cos, sin)
        yield "rotary.eager.backward", shape, again(rotated(x, cos, sin), (x,), drawn(*x.shape))
    for m, h in ((2048, 2048), (8192, 4096), (8192, 16384)):
        x, weight, bias, gradient = drawn(m, h).requires_grad_(), drawn(h), drawn(h), drawn(m, h)
        shape = f"{m}x{h}"
        yield "sum.forward", shape, lambda x=x, gradient=gradient: x + gradient
        yield "gelu.forward", shape, lambda x=x: F.gelu(x, approximate="tanh")
        yield "gelu.backward", shape, again(F.gelu(x, approximate="tanh"), (x,), gradient)
        learned = (x, weight.requires_grad_(), bias.requires_grad_())
        made = F.layer_norm(x, (h,), weight, bias)
        yield "layernorm.F.forward", shape, lambda x=x, w=weight, b=bias: F.layer_norm(x, w.shape, w, b)
        yield "layernorm.F.backward", shape, again(made, learned, gradient)
    for heads, s in ((8, 1024), (32, 2048)):
        scores, mask = drawn(1, heads, s, s).requires_grad_(), torch.ones(s, s, device="cuda").triu(1).bool()
        yield "softmax.eager.forward", f"{heads}x{s}x{s}", lambda at=scores, mask=mask: softened(at, mask)
        yield (
            "softmax.eager.backward",
            f"{heads}x{s}x{s}",
            again(softened(scores, mask), (scores,), drawn(*scores.shape)),
        )


def adapters() -> Iterator[Row]:
    """What adapters run: products with A and B of a rank, and their gradients, dropout, numbers times a mask."""
    for m in (4096, 16384):
        for h, rank in ((1024, 16), (4096, 8), (4096, 16), (4096, 64), (6144, 16), (8192, 16), (14336, 16)):
            wide, narrow, weight, second = drawn(m, h), drawn(m, rank), drawn(rank, h), drawn(h, rank)
            for name, run in {
                "a.forward": lambda x=wide, weight=weight: x @ weight.t(),
                "a.input-grad": lambda x=narrow, weight=weight: x @ weight,
                "a.weight-grad": lambda x=wide, y=narrow: y.t() @ x,
                "b.forward": lambda x=narrow, weight=second: x @ weight.t(),
                "b.input-grad": lambda x=wide, weight=second: x @ weight,
                "b.weight-grad": lambda x=wide, y=narrow: x.t() @ y,
            }.items():
                yield f"narrow.{name}", f"{m}x{h}x{rank}", run
    for name, dtype in (("bf16", torch.bfloat16), ("fp32", torch.float32)):
        x = drawn(16384, 4096, dtype=dtype)
        found, mask = torch.native_dropout(x, 0.1, True)
        yield f"dropout.{name}.forward", "16384x4096", lambda x=x: torch.native_dropout(x, 0.1, True)
        yield (
            f"dropout.{name}.backward", "16384x4096",
            lambda x=found, mask=mask: torch.ops.aten.native_dropout_backward(x, mask, 1.0 / 0.9),
        )  # fmt: skip
    x, mask = drawn(16384, 4096), drawn(16384, 4096) > 0
    yield "masked", "16384x4096", lambda x=x, mask=mask: mask * x


def turned() -> Iterator[Row]:
    """Kernels that PyTorch does not vectorise: over tensors that are turned over or cut, and to another format."""
    for s, b, heads, size in ((4096, 4, 32, 64), (4096, 2, 32, 96), (4096, 3, 16, 96), (4096, 1, 32, 128)):
        made, both, out = drawn(s, b, 3 * heads * size), drawn(2, b, s, heads, size), drawn(b, s, heads * size)
        shape, three = f"{s}x{b}x{heads}x{size}", (s, b, 3, heads, size)
        yield "turned.qkv", shape, lambda at=made, to=three: at.view(to).permute(2, 1, 0, 3, 4).contiguous()
        yield "turned.kv", shape, lambda at=both: at.permute(1, 2, 0, 3, 4).contiguous()
        if b > 1:
            yield "turned.output", shape, lambda at=out: at.transpose(0, 1).contiguous()
    for m, f in ((16384, 8192), (8192, 8192), (12288, 4096), (4096, 14336)):
        gate, up = drawn(m, 2 * f).split(f, dim=-1)
        acted, gradient, shape = F.silu(gate), drawn(m, f), f"{m}x{f}"
        yield "cut.silu.forward", shape, lambda gate=gate: F.silu(gate)
        yield "cut.product", shape, lambda acted=acted, up=up: acted * up
        yield "cut.silu.backward", shape, lambda gate=gate, g=gradient: torch.ops.aten.silu_backward(g, gate)
        yield "joined.halves", shape, lambda acted=acted, g=gradient: torch.cat((g, acted), dim=-1)
    for m, n in ((4096, 131072), (12288, 65536), (36864, 32768)):
        yield "widened.fp32", f"{m}x{n}", lambda half=drawn(m, n): half.float()  # noqa: B008


def states() -> Iterator[Row]:
    """Updates, and streams of as many numbers as an average model has."""
    for name in ("fused", "foreach"):
        weights = [drawn(4096, 4096, dtype=torch.float32).requires_grad_() for _ in range(24)]
        for one in weights:
            one.grad = torch.randn_like(one)
        yield f"adamw.{name}", "24x4096x4096 fp32", torch.optim.AdamW(weights, lr=1e-5, **{name: True}).step
    one, two, out = drawn(STREAM), drawn(STREAM), drawn(STREAM)
    yield "copy", "2**28 bf16", lambda: out.copy_(one)
    yield "add", "2**28 bf16", lambda: torch.add(one, two, out=out)


def grouped() -> Iterator[Row]:
    """Products of experts, as many rows for each."""
    for experts, m, n, k in EXPERTS:
        x, weights = drawn(m, k), drawn(experts, n, k)
        ends = torch.arange(m // experts, m + 1, m // experts, device="cuda", dtype=torch.int32)
        yield (
            "grouped.forward", f"{experts}e {m}x{n}x{k}",
            lambda x=x, weights=weights, ends=ends: torch._grouped_mm(x, weights.transpose(1, 2), offs=ends),
        )  # fmt: skip


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--out", type=Path, required=True, help="CSV file of the rows")
    parts = (products, narrow_products, attention, elementwise, losses, operations, adapters, turned, states, grouped)
    named = [part.__name__ for part in parts]
    parser.add_argument("--only", nargs="+", choices=named, default=named, help="what to measure (default: everything)")
    arguments = parser.parse_args()
    out = arguments.out
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    with out.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["row_id", "kernel", "shape", "time_us"])
        number = 0
        for made in parts:
            for kernel, shape, run in made() if made.__name__ in arguments.only else ():
                number += 1
                time_us = do_bench(run, warmup=15, rep=60, return_mode="median") * 1e3
                writer.writerow([f"hk{number:03d}", kernel, shape, f"{time_us:.1f}"])
                print(f"{kernel:<28}{shape:<24}{time_us:>10.1f} us", flush=True)


if __name__ == "__main__":
    main()
