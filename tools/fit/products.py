"""`python tools/fit/products.py`: curves of devices from kernels alone, without any step.

torch.matmul of n x n by n x n in bf16 takes 2 n^3 / (peak e) + c 6 n^2 / bandwidth (`describe/hardware/device.py`), so
that

    1 / f_n = 1 / e + c x_n        f_n the fraction of the peak that was measured, x_n = 3 peak / (n bandwidth)

is a line, fitted by least squares with c not below 0.01 and e not above 1. Products of 1,024 rows, which wait for their
launch, are left out. What else the curve needs is that of the same generation's device.

Of H100 streams of 2**28 numbers (`h100_stream_frac`), and as a check of its curve, which is fitted to layers on another
card (`power.py`), all three products of a linear layer at shapes of training, in bf16 and in fp8 with one scale per
tensor (`h100_errors`). Measured for this purpose on one H100 SXM of 700 W, PyTorch 2.11.0 with CUDA 13.0, 26 November
2026, on random numbers, each the median of 60 ms of repeats with the cache emptied between them
(`benchmarks/gpu_kernels.py`): h100_kernels.csv; what adapters run (narrow, dropout, masked), medians of 20, on 27
November.

Of A100 by the same line the products of 2,048 rows and more that Azure publishes, after warming up until clocks are
sustained (gemm_kernels.csv), and the fastest of many shapes (matmul_achievable_flops.csv). Of PyTorch what it takes
over the bytes of its sums and activations, and of its losses (`operations`), measured on H100 with the products. What
it does not vectorise was measured the day after on another such H100, alone (30 ms of repeats) and inside layers of
nanotron (h100_layers.csv, `benchmarks/gpu_layers.py`): constants of `price/kernels/copies.py` and
`price/kernels/states.py`.

Other sources: github.com/zzc0721/torch-performance-test-data, issues 77 and 78 (October 2025, PyTorch 2.7, rates by
size).
"""

from __future__ import annotations

import math

import numpy as np

from lockstep.base.types.arrays import Floats
from lockstep.check.validation.case import read_rows
from lockstep.describe.hardware import Device, device, efficiency
from lockstep.price.kernels.clock import Clock

DEVICES = {"H20": "h20", "RTX 4090": "rtx-4090"}
SMALLEST, LEAST_FACTOR = 2048, 0.01
H100_FILE = "h100_kernels.csv"
LAYERS_FACTOR = 0.5
"""Least c there: products of layers are large and do not tell it, and of c = 0 narrow ones would cost nothing more: one
of 4,096 x 4,096 x 512 took 41 us, where its arithmetic alone takes 24 (`lockstep bench device`)."""
A100_FILES, A100_CURVE = ("gemm_kernels.csv", "matmul_achievable_flops.csv"), ("matmul_max_frac", "matmul_bytes_factor")
PASSES = {
    "sum.forward": 3, "gelu.forward": 2, "gelu.backward": 3, "swiglu.eager.forward": 5, "swiglu.eager.backward": 9,
    "cross-entropy.eager.forward": 11, "cross-entropy.eager.backward": 13, "cross-entropy.in-place.forward": 19,
}  # fmt: skip
"""Passes over every number in half precision of operations that were measured alone."""
LEAST_ELEMENTS = 2**24
"""Smaller ones stay in the cache or wait for their launch."""


def fit(gpu: str) -> tuple[float, float]:
    """(matmul_max_frac, matmul_bytes_factor) of a device of the table."""
    from scipy.optimize import lsq_linear

    found = device(DEVICES[gpu])
    rows = [row for row in read_rows("torch_products.csv") if row["gpu"] == gpu and int(row["n"]) >= SMALLEST]
    sizes, rates = (np.array([float(row[name]) for row in rows]) for name in ("n", "tflops"))
    peak = found.peak("bf16")
    line = np.column_stack([np.ones(len(rows)), 3.0 * peak / (sizes * found.memory_bandwidth_Bps)])
    slowness, factor = lsq_linear(line, peak / (rates * 1e12), bounds=([1.0, LEAST_FACTOR], np.inf)).x
    return float(f"{1.0 / slowness:.3g}"), float(f"{factor:.3g}")


def h100_stream_frac() -> float:
    """Share of H100's bandwidth of a copy, which reads and writes, and an addition, which reads twice: the mean."""
    seconds = {row["kernel"]: float(row["time_us"]) * 1e-6 for row in read_rows(H100_FILE)}
    rates = [passes * 2.0 * 2**28 / seconds[kernel] for kernel, passes in (("copy", 2), ("add", 3))]
    return float(f"{np.mean(rates) / device('h100-sxm').memory_bandwidth_Bps:.3g}")


def h100_errors(kind: str) -> list[float]:
    """Priced over measured seconds, less one, of H100's products alone, of kernels whose name begins with `kind`."""
    clock, found = Clock(device("h100-sxm"), "fp8" if kind.startswith("fp8") else "bf16"), []
    for row in read_rows(H100_FILE):
        if row["kernel"].startswith(kind):
            m, n, k = map(float, row["shape"].split("x"))
            found.append(float(clock.matmul(m, n, k).device_s) / (float(row["time_us"]) * 1e-6) - 1.0)
    return found


def a100() -> dict[str, float]:
    """Constants of the curve of A100."""
    gemms, best = map(read_rows, A100_FILES)
    shapes = [[float(row[name]) for name in ("m", "n", "k", "tflops")] for row in gemms if row["gpu"][:4] == "A100"]
    shapes = [one for one in shapes if min(one[:3]) >= SMALLEST]
    printed = ("best_M", "best_N", "best_K", "mamf_tflops")
    shapes += [[float(row[name]) for name in printed] for row in best if row["accelerator"] == "NVIDIA A100 SXM"]
    m, n, k, tflops = np.array(shapes).T
    flops, size_B = 2.0 * m * n * k, 2.0 * (m * n + n * k + m * k)
    slowness, factor = _line(device("a100-sxm-80gb"), flops, size_B, flops / (tflops * 1e12))
    return {name: float(f"{value:.3g}") for name, value in zip(A100_CURVE, (1.0 / slowness, factor), strict=True)}


def _line(found: Device, flops: Floats, size_B: Floats, time_s: Floats) -> tuple[float, float]:
    """(1/e, c) of seconds = flops / (peak e) + c bytes / bandwidth, by least squares of relative errors."""
    from scipy.optimize import lsq_linear

    terms = np.column_stack([flops / found.peak("bf16"), size_B / found.memory_bandwidth_Bps]) / time_s[:, np.newaxis]
    slowness, factor = lsq_linear(terms, np.ones(len(time_s)), bounds=([1.0, LAYERS_FACTOR], np.inf)).x
    return float(slowness), float(factor)


def operations() -> dict[str, float]:
    """Seconds of PyTorch's sums and activations ("torch") and losses ("loss") over those of their bytes: means."""
    stream_Bps = device("h100-sxm").memory_bandwidth_Bps * efficiency("h100").stream_frac
    found: dict[str, list[float]] = {"torch": [], "loss": []}
    for row in read_rows(H100_FILE):
        elements = math.prod(map(int, row["shape"].split("x"))) if row["kernel"] in PASSES else 0
        if elements >= LEAST_ELEMENTS:
            whose = "loss" if row["kernel"].startswith("cross-entropy") else "torch"
            size_B = 2.0 * PASSES[row["kernel"]] * elements
            found[whose].append(float(row["time_us"]) * 1e-6 * stream_Bps / size_B)
    return {whose: float(f"{np.mean(factors):.3g}") for whose, factors in found.items()}


def main() -> None:
    """Prints the constants of every device."""
    for gpu, name in DEVICES.items():
        most, factor = fit(gpu)
        print(f"{name}: matmul_max_frac = {most:g}, matmul_bytes_factor = {factor:g}")
    print("a100:", ", ".join(f"{name} = {value:g}" for name, value in a100().items()))
    print("operations:", operations())
    print(f"h100: stream_frac = {h100_stream_frac():g}")
    for kind in ("matmul.", "fp8.tensorwise."):
        print(f"h100, {kind}*: off by {np.median(np.abs(h100_errors(kind))):.1%} in the median")


if __name__ == "__main__":
    main()
