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

`fit_curve` makes of them an efficiency curve in the form of the hardware catalog:
matmul_max_frac e and matmul_bytes_factor c solve  t = 2mnk / (peak e) + c bytes / bandwidth  over products that take at
least `LAUNCHES` times as long as the shortest, by least squares on relative errors, e <= 1, c >= 0.
Streams take the largest size, attention the best, the launch its median.
Host times of recomputation and of a step are no kernel's and stay 0; the text of the curve says so.

Peak and bandwidth are those of the datasheet; where none are given the best rates measured stand in for them, and all
fractions are of those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json, picked
from lockstep.describe.hardware import Efficiency

if TYPE_CHECKING:
    import torch

NARROW = 8
FORWARD_PRODUCTS, BACKWARD_PRODUCTS = 2, 5
ADAMW_B = 28.0
LAUNCHES = 4.0
_LENGTHS = ((10**6, 4 * 10**6, 16 * 10**6), (10**7, 10**8, 10**9))


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

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return {
            **picked(self, "kernel shape flops size_B time_s"),
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


KERNELS = {
    "matmul": Kernel(matmul, (64, 128, 256, 512, 1024), (256, 512, 1024, 2048, 4096, 8192, 16384)),
    "memory": Kernel(memory, *_LENGTHS),
    "copy": Kernel(copy, *_LENGTHS),
    "attention": Kernel(attention, (128, 256, 512, 1024), (512, 1024, 2048, 4096, 8192)),
    "optimizer": Kernel(optimizer, (10**6, 4 * 10**6), (10**7, 10**8)),
    "launch": Kernel(launch, (200,), (1000,)),
}


@dataclass(frozen=True, slots=True)
class Curve:
    """An efficiency curve and what its fractions are fractions of."""

    efficiency: Efficiency
    peak_flops: float
    memory_bandwidth_Bps: float
    from_datasheet: bool
    errors_frac: tuple[float, ...]
    """Signed relative error of the curve on each product fitted."""

    def to_toml(self) -> str:
        """An entry of `describe/hardware/catalog/efficiency.toml`."""
        lines = [f"[{self.efficiency.name}]"]
        for name, value in self.efficiency.to_dict().items():
            if name == "devices":
                lines.append(f"devices = [{', '.join(_quoted(device) for device in value)}]")
            elif name not in ("name", "attention", "power", "same_chip", "like"):
                lines.append(f"{name} = {_quoted(value) if isinstance(value, str) else f'{value:.4g}'}")
        return "\n".join(lines) + "\n"

    def to_dict(self) -> Json:
        """Plain JSON form."""
        shown = picked(self, "peak_flops memory_bandwidth_Bps from_datasheet errors_frac")
        return self.efficiency.to_dict() | shown | {"toml": self.to_toml()}


def fit_curve(
    rows: Sequence[KernelRow], device: str, date: str, peak_flops: float | None, memory_bandwidth_Bps: float | None
) -> Curve:
    """The curve of measured rows. Raises BadInput when a kernel that it needs is missing."""
    by_kernel: dict[str, list[KernelRow]] = {}
    for row in rows:
        by_kernel.setdefault(row.kernel, []).append(row)
    for name in ("matmul", "memory", "attention", "attention backward", "launch"):
        if name not in by_kernel:
            raise BadInput(f"the curve needs {name}, which was not measured", "kernels")
    best_flops = max(row.flops / row.time_s for row in by_kernel["matmul"])
    # Small vectors stay in the caches; the largest one shows the memory.
    largest = max(by_kernel["memory"], key=lambda row: row.size_B)
    best_Bps = largest.size_B / largest.time_s
    peak, bandwidth = peak_flops or best_flops, memory_bandwidth_Bps or best_Bps
    max_frac, bytes_factor, errors = _products(by_kernel["matmul"], peak, bandwidth)
    launch = by_kernel["launch"][-1]
    given = peak_flops is not None and memory_bandwidth_Bps is not None
    of = "the datasheet" if given else "the best rates measured"
    curve = Efficiency(
        name="-".join("".join(c if c.isalnum() else " " for c in device.lower()).split()) or "device",
        matmul_max_frac=max_frac,
        matmul_bytes_factor=bytes_factor,
        stream_frac=best_Bps / bandwidth,
        attention_forward_frac=_best(by_kernel["attention"]) / peak,
        attention_backward_frac=_best(by_kernel["attention backward"]) / peak,
        launch_s=launch.time_s / launch.kernels,
        kind="measured",
        devices=(device,),
        source=f"lockstep bench device; fractions of {of}",
        date=date,
        typical_error_frac=float(np.median(np.abs(errors))),
    )
    return Curve(curve, peak, bandwidth, given, tuple(errors))


def _best(rows: Sequence[KernelRow]) -> float:
    return max(row.flops / row.time_s for row in rows)


def _products(rows: Sequence[KernelRow], peak: float, bandwidth_Bps: float) -> tuple[float, float, list[float]]:
    """(e, c, relative errors of the products fitted): e at most 1, c at least 0.

    A product hardly longer than the shortest waits for its launch, and says nothing of the device.
    """
    shortest_s = min(row.time_s for row in rows)
    long = [row for row in rows if row.time_s > LAUNCHES * shortest_s] or list(rows)
    time_s = np.array([row.time_s for row in long])
    ideal = np.array([[row.flops / peak, row.size_B / bandwidth_Bps] for row in long]) / time_s[:, np.newaxis]
    slowness, factor = np.linalg.lstsq(ideal, np.ones(len(long)), rcond=None)[0]
    if factor < 0:
        slowness, factor = float(ideal[:, 0].sum() / (ideal[:, 0] @ ideal[:, 0])), 0.0
    if slowness < 1:
        slowness, rest = 1.0, 1.0 - ideal[:, 0]
        factor = max(0.0, float(rest @ ideal[:, 1] / (ideal[:, 1] @ ideal[:, 1])))
    return 1.0 / float(slowness), float(factor), (ideal @ [slowness, factor] - 1.0).tolist()


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', "'") + '"'
