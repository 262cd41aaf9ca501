"""`Clock`, what kernels cost on one device, and `Work`, an addable account of kernel time.

A layer's device time is the sum of its kernels; its time is the larger of that and what the host needs to launch
them (small shards are launch-bound). Formulas and symbols: `describe/hardware/device.py`.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from lockstep.base.errors import UnknownName
from lockstep.base.records import dataclass, field, replace
from lockstep.base.types.arrays import Number, Truth
from lockstep.describe.hardware import AttentionKernel, Device
from lockstep.describe.hardware.device import SCALED
from lockstep.describe.stacks import DEFAULT, Stack, stack
from lockstep.price.layout import Recipe

ATTENTION_DTYPES = dict.fromkeys(("fp8", "mxfp8", "fp4", "nvfp4", "int8"), "bf16")
"""Attention and elementwise kernels stay in half precision where matrix products run in a narrower format."""

INPUT_B = {"fp4": 0.5, "nvfp4": 0.5 + 1 / 16, "fp8": 1.0, "mxfp8": 1.0 + 1 / 32, "int8": 1.0}
"""Bytes per element of a product's inputs where they are narrower than activations, scales of blocks included."""

WIDE_FRAC = {"nvfp4": 0.16}
"""Of products, those that stay in bf16: some of the first and last blocks (NVIDIA 2025, arXiv 2509.25149, pre-training
in NVFP4, which keeps about 16 % of the linear layers)."""

EAGER_LAUNCHES = 1.3, 0.7
"""Host time per launch over the mean of both, where Python launches what is forward and autograd, in C++, what is
backward: 1.8 times as long between launches in a published profile of two A100 (facebookresearch/HolisticTraceAnalysis,
tests/data, the medians of both threads), 1.2 times in one of MI300X (AMD-AGI/TraceLens). Taken as on A100: so steps on
one H100 (check/validation/h100_steps.py) are met within 1.6 % in the median, with equal times within 2.2."""


OPERATIONS = 1.03
"""Times as long as their bytes that PyTorch's sums and activations took alone on H100 (`tools/fit/products.py`)."""
MIXED, WIDENED = 1.3, 1.5
"""The same of sums of half precision and fp32, and of copies of half precision to fp32, which are not vectorised: 1.27
to 1.36 and 1.43 to 1.57 inside of steps, 1.51 in three sizes alone; smaller tensors more (H100, as in `copies.py`)."""
BYTES_PER_FLOP = 3.35 / 66.9
"""Memory bandwidth of H100 over its fp32 peak, where what kernels take over their bytes was measured."""


@dataclass(frozen=True, slots=True)
class Work:
    """Seconds of device time by kind, FLOPs executed, and kernels launched. Adds up; scales by a count."""

    matmul_s: Number = 0.0
    attention_s: Number = 0.0
    stream_s: Number = 0.0
    flops: Number = 0.0
    kernels: Number = 0.0

    def __add__(self, other: Work) -> Work:
        return Work(
            _sum(self.matmul_s, other.matmul_s),
            _sum(self.attention_s, other.attention_s),
            _sum(self.stream_s, other.stream_s),
            _sum(self.flops, other.flops),
            _sum(self.kernels, other.kernels),
        )

    def __mul__(self, count: Number) -> Work:
        return Work(*(0.0 if _none(part) else part * count for part in self._parts()))

    __rmul__ = __mul__

    def _parts(self) -> tuple[Number, ...]:
        return self.matmul_s, self.attention_s, self.stream_s, self.flops, self.kernels

    def when(self, mask: Truth) -> Work:
        """This work where `mask` holds, nothing elsewhere."""
        return self * np.where(mask, 1.0, 0.0)

    def inside(self, factors: tuple[Number, Number, Number]) -> Work:
        """This work inside a step, by factors of products and attention and seconds between kernels."""
        return replace(
            self,
            matmul_s=self.matmul_s * factors[0],
            attention_s=self.attention_s * factors[1],
            stream_s=self.stream_s + self.kernels * factors[2],
        )

    @property
    def device_s(self) -> Number:
        """Seconds if the host never falls behind."""
        return self.matmul_s + self.attention_s + self.stream_s

    def seconds(self, launch_s: float, blocking: bool = False) -> Number:
        """Seconds with the host launching one kernel every `launch_s`, or waiting for each before the next."""
        return (
            self.device_s + self.kernels * launch_s if blocking else np.maximum(self.device_s, self.kernels * launch_s)
        )


def _none(part: Number) -> bool:
    return isinstance(part, float) and not part


def _sum(one: Number, other: Number) -> Number:
    """The sum of two parts; a part that is nothing costs no pass over a grid."""
    if isinstance(other, float) and not other:
        return one
    return other if isinstance(one, float) and not one else one + other


@dataclass(frozen=True, slots=True)
class Clock:
    """Prices kernels that software runs on a device, products in `dtype`, `element_B` bytes per activation element."""

    device: Device
    dtype: str
    element_B: float = 2.0
    stack: Stack = field(default_factory=partial(stack, DEFAULT))
    attention_kernel: str | None = None
    overlap_device_frac: float | None = None

    @classmethod
    def of(cls, device: Device, recipe: Recipe) -> Clock:
        """The clock of a recipe: its formats, its software."""
        software = recipe.software
        if recipe.cuda_graphs == "step":
            software = replace(software, launch_s=0.0, recompute_host_s=0.0)
        share = recipe.overlap_device_frac
        return cls(device, recipe.dtype, recipe.element_B, software, recipe.attention_kernel, share)

    @property
    def traffic_device_frac(self) -> float:
        """Share of the device that tensor-, context- and data-parallel collectives take from kernels beside them."""
        known = self.overlap_device_frac
        return self.device.efficiency.traffic_device_frac if known is None else known

    def peak(self, dtype: str) -> float:
        """Dense peak FLOP/s of the device in `dtype`. Raises UnknownName when the device does not have it."""
        if not self.device.takes(dtype):
            raise UnknownName(f"number format for {self.device.name}", dtype, self.device.peak_flops, "--dtype")
        return self.device.peak(dtype)

    @property
    def wide(self) -> Clock:
        """The clock of products that stay in half precision where the others run in a narrower format."""
        return replace(self, dtype=ATTENTION_DTYPES.get(self.dtype, self.dtype))

    @property
    def matmul_peak_flops(self) -> float:
        """Peak of the format that matrix products run in; the mean over products where some stay wide."""
        return self._mean_rate(self.peak(self.dtype))

    def _mean_rate(self, narrow: float) -> float:
        """The rate over all products, of those in the format and of those that stay in half precision."""
        share = WIDE_FRAC.get(self.dtype, 0.0)
        return narrow if not share else 1.0 / ((1.0 - share) / narrow + share / self.peak("bf16"))

    def matmul(self, m: Number, n: Number, k: Number, count: Number = 1) -> Work:
        """`count` products of m x k by k x n in one kernel."""
        operand_B = (INPUT_B.get(self.dtype, self.element_B) * (m * k + k * n) + self.element_B * m * n) * count
        return self.product(2.0 * m * n * k * count, operand_B)

    def product(self, flops: Number, operand_B: Number) -> Work:
        """Products in one kernel: flops/(peak e) + c * bytes/bandwidth seconds, and never less than bytes/bandwidth."""
        seconds = self.arithmetic(flops).matmul_s + self.operands(operand_B).matmul_s
        least_s = operand_B / self.device.memory_bandwidth_Bps
        return Work(matmul_s=np.maximum(seconds, least_s), flops=flops, kernels=1)

    def arithmetic(self, flops: Number) -> Work:
        """`flops` of products in one kernel, as if their operands were on chip."""
        curve = self.device.efficiency
        narrow = self.peak(self.dtype) * curve.narrow_frac(self.dtype)
        seconds = flops / (self._mean_rate(narrow) * curve.matmul_max_frac)
        return Work(matmul_s=seconds, flops=flops, kernels=1)

    def operands(self, size_B: Number) -> Work:
        """Bytes that products read or write: what of them does not hide behind their arithmetic."""
        curve = self.device.efficiency
        factor = curve.matmul_bytes_factor * curve.narrow_bytes_factor(self.dtype)
        return Work(matmul_s=factor * size_B / self.device.memory_bandwidth_Bps)

    def matmul_backward(self, m: Number, n: Number, k: Number, count: Number = 1) -> Work:
        """The two products that give the gradients of both operands."""
        return self.matmul(m, k, n, count) + self.matmul(k, n, m, count)

    def fused_attention(
        self, flops: Number, tokens: Number, head_dim: int, causal: bool, backward: bool = False
    ) -> Work:
        """One attention kernel over sequences of `tokens` that executes `flops` and keeps its scores on chip."""
        frac = self.attention[1].frac(tokens, head_dim, causal, backward)
        peak = self.peak(ATTENTION_DTYPES.get(self.dtype, self.dtype))
        return Work(attention_s=flops / (peak * frac), flops=flops, kernels=1)

    @property
    def attention(self) -> tuple[str, AttentionKernel]:
        """Name and rates of the fused attention kernel that the software runs on the device."""
        wanted = self.stack.attention if self.attention_kernel is None else (self.attention_kernel,)
        return self.device.efficiency.kernel(wanted)

    @property
    def launch_s(self) -> float:
        """Host time per kernel launch in the mean of both passes; never less than the device needs."""
        return self._launch_s(1.0)

    @property
    def launches_s(self) -> tuple[float, float]:
        """The same forward, recomputation included, and backward."""
        forward, backward = (1.0, 1.0) if self.stack.compiled else EAGER_LAUNCHES
        return self._launch_s(forward), self._launch_s(backward)

    def _launch_s(self, factor: float) -> float:
        found: float = np.maximum(self.device.efficiency.launch_s, self._host(self.stack.launch_s) * factor)
        return found

    @property
    def recompute_host_s(self) -> float:
        """Host time per recomputed layer beside its launches."""
        return self._host(self.stack.recompute_host_s)

    @property
    def step_s(self) -> float:
        """Host time per optimizer step."""
        return self._host(self.stack.step_s) * self.device.efficiency.step_factor

    def _host(self, seconds: float) -> float:
        return seconds * self.device.efficiency.host_factor

    def elementwise(self, size_B: Number, kernels: Number = 1) -> Work:
        """The software's norms and elementwise kernels, which must move `size_B` bytes in all."""
        return self.stream(size_B * self.stack.elementwise_factor, kernels)

    def operations(self, size_B: Number, kernels: Number = 1) -> Work:
        """PyTorch's own operations, which must move `size_B` bytes in all."""
        return self.stream(size_B * OPERATIONS, kernels)

    def factors_inside(self, whole: Work) -> tuple[Number, Number, Number]:
        """Seconds of products and of attention over those alone, in passes of kernels `whole`, and between kernels."""
        power, dtype = self.device.efficiency.power, SCALED.get(self.dtype, self.dtype)
        if power is None:
            return 1.0, 1.0, self.gap_s
        return *power.factors(dtype, whole.matmul_s, whole.attention_s, whole.stream_s), self.gap_s

    @property
    def gap_s(self) -> Number:
        """Seconds between kernels that the host has launched ahead; none where a graph of the whole step does."""
        return np.where(self.stack.launch_s > 0.0, self.device.efficiency.gap_s, 0.0)

    def instruction_bound(self, factor: float) -> float:
        """Times as long as its bytes that a kernel takes here that takes `factor` times as long on H100.

        Such kernels wait for their instructions, not for the memory. Devices with fewer bytes of bandwidth for each
        FLOP/s of fp32, as those with graphics memory, leave them more time; elsewhere the factor is taken as it is.
        """
        peak = self.device.peak_flops.get("fp32")
        share = 1.0 if peak is None else min(1.0, self.device.memory_bandwidth_Bps / peak / BYTES_PER_FLOP)
        return max(1.0, factor * share)

    def stream(self, size_B: Number, kernels: Number = 1) -> Work:
        """Kernels that move `size_B` bytes in all, as fast as the device can."""
        rate_Bps = self.device.memory_bandwidth_Bps * self.device.efficiency.stream_frac
        return Work(stream_s=size_B / rate_Bps, kernels=kernels)
