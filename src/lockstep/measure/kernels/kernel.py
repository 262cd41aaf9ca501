"""The table of kernels to measure: what each does at a size, and what it costs in FLOPs and bytes.

matmul      n x n by n x n, and n x n by n x n/8 as a narrow layer has it: 2 m n k FLOPs, both operands and the result
memory      c = a + b on vectors of n elements: two reads and a write
copy        b = a: one read and one write
attention   causal, 4 heads of 64 (64 heads of 128 on a GPU), sequence n: two products forward, five backward, half of
            each as the mask allows
optimizer   one fused AdamW step on n fp32 parameters: 16 bytes read, 12 written per parameter
launch      n additions of one element, one after another: what the host needs per kernel

Sources: Dao et al., "FlashAttention" (2022), section 3, for the products of the backward pass; torch.optim.AdamW keeps
two fp32 moments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

NARROW = 8
FORWARD_PRODUCTS, BACKWARD_PRODUCTS = 2, 5
ADAMW_B = 28.0


@dataclass(frozen=True, slots=True)
class Task:
    """One kernel at one size, ready to run."""

    kernel: str
    shape: str
    run: Callable[[], Any]
    flops: float = 0.0
    size_B: float = 0.0
    """Bytes that must move between memory and the processor."""
    kernels: int = 1


@dataclass(frozen=True, slots=True)
class KernelRow:
    """A kernel that was measured."""

    kernel: str
    shape: str
    flops: float
    size_B: float
    kernels: int
    times_s: tuple[float, ...]

    @property
    def time_s(self) -> float:
        """Median seconds."""
        ordered = sorted(self.times_s)
        return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        return {
            "kernel": self.kernel,
            "shape": self.shape,
            "flops": self.flops,
            "size_B": self.size_B,
            "time_s": self.time_s,
            "min_s": min(self.times_s),
            "max_s": max(self.times_s),
            "repeats": len(self.times_s),
            "flops_per_s": self.flops / self.time_s if self.time_s else 0.0,
            "bandwidth_Bps": self.size_B / self.time_s if self.time_s else 0.0,
        }


def matmul(device: str, dtype: torch.dtype, size: int) -> Iterator[Task]:
    """A square and a narrow product."""
    import torch

    left = torch.randn(size, size, device=device, dtype=dtype)
    for width in (size, max(1, size // NARROW)):
        right = torch.randn(size, width, device=device, dtype=dtype)
        out = torch.empty(size, width, device=device, dtype=dtype)
        size_B = (left.numel() + right.numel() + out.numel()) * left.element_size()
        yield Task(
            "matmul", f"{size}x{size}x{width}", lambda right=right, out=out: torch.matmul(left, right, out=out),  # type: ignore[misc]
            2.0 * size * size * width, float(size_B),
        )  # fmt: skip


def memory(device: str, dtype: torch.dtype, size: int) -> Iterator[Task]:
    """The triad of streams, without a factor."""
    import torch

    one, two, out = (torch.ones(size, device=device, dtype=dtype) for _ in range(3))
    yield Task("memory", f"{size}", lambda: torch.add(one, two, out=out), size_B=3.0 * size * one.element_size())


def copy(device: str, dtype: torch.dtype, size: int) -> Iterator[Task]:
    """A copy."""
    import torch

    one, out = (torch.ones(size, device=device, dtype=dtype) for _ in range(2))
    yield Task("copy", f"{size}", lambda: out.copy_(one), size_B=2.0 * size * one.element_size())


def attention(device: str, dtype: torch.dtype, size: int) -> Iterator[Task]:
    """Forward, then backward of the same call."""
    import torch
    from torch.nn.functional import scaled_dot_product_attention as attend

    heads, width = (64, 128) if device.startswith("cuda") else (4, 64)
    shape = (1, heads, size, width)
    query, key, value = (torch.randn(shape, device=device, dtype=dtype, requires_grad=True) for _ in range(3))
    product = 2.0 * heads * size * size * width / 2
    name = f"{heads}x{size}x{width}"
    yield Task(
        "attention", name, lambda: attend(query.detach(), key.detach(), value.detach(), is_causal=True),
        FORWARD_PRODUCTS * product,
    )  # fmt: skip
    out = attend(query, key, value, is_causal=True)
    gradient = torch.ones_like(out)
    yield Task(
        "attention backward", name,
        lambda: torch.autograd.grad(out, (query, key, value), gradient, retain_graph=True),
        BACKWARD_PRODUCTS * product,
    )  # fmt: skip


def optimizer(device: str, dtype: torch.dtype, size: int) -> Iterator[Task]:
    """AdamW on one tensor of fp32 parameters."""
    import torch

    parameter = torch.nn.Parameter(torch.zeros(size, device=device))
    parameter.grad = torch.ones_like(parameter)
    adamw = torch.optim.AdamW([parameter], fused=True)
    yield Task("optimizer", f"{size}", adamw.step, size_B=ADAMW_B * size)


def launch(device: str, dtype: torch.dtype, size: int) -> Iterator[Task]:
    """`size` additions of one element."""
    import torch

    one = torch.ones(1, device=device, dtype=dtype)

    def run() -> None:
        for _ in range(size):
            one.add_(1)

    yield Task("launch", f"{size}", run, kernels=size)


@dataclass(frozen=True, slots=True)
class Kernel:
    """How to make a kernel's tasks, and at which sizes."""

    make: Callable[[str, torch.dtype, int], Iterator[Task]]
    cpu_sizes: tuple[int, ...]
    gpu_sizes: tuple[int, ...]


_LENGTHS = ((10**6, 4 * 10**6, 16 * 10**6), (10**7, 10**8, 10**9))
KERNELS = {
    "matmul": Kernel(matmul, (64, 128, 256, 512, 1024), (256, 512, 1024, 2048, 4096, 8192, 16384)),
    "memory": Kernel(memory, *_LENGTHS),
    "copy": Kernel(copy, *_LENGTHS),
    "attention": Kernel(attention, (128, 256, 512, 1024), (512, 1024, 2048, 4096, 8192)),
    "optimizer": Kernel(optimizer, (10**6, 4 * 10**6), (10**7, 10**8)),
    "launch": Kernel(launch, (200,), (1000,)),
}
