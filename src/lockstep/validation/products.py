"""`python -m lockstep.validation.products`: curves of devices from kernels alone, without any step.

torch.matmul of n x n by n x n in bf16 takes 2 n^3 / (peak e) + c 6 n^2 / bandwidth (`hardware/device.py`), so that

    1 / f_n = 1 / e + c x_n        f_n the fraction of the peak that was measured, x_n = 3 peak / (n bandwidth)

is a line, fitted by least squares with c not below 0.01 and e not above 1. Products of 1,024 rows, which wait for their
launch, are left out. What else the curve needs is that of the same generation's device.

Of H100 there are all three products of a linear layer at shapes of training, in bf16 and fp8, and streams of 2**28
numbers (`h100`): the same line in relative errors, c not below 0.5; of fp8, with one scale per tensor, the median over
what the curve says in bf16. Measured for this purpose on one H100 SXM of 700 W, PyTorch 2.11.0 with CUDA 13.0, 26
November 2026, on random numbers, each the median of 60 ms of repeats with the cache emptied between them
(`benchmarks/gpu_kernels.py`): h100_kernels.csv; what adapters run (narrow, dropout, masked), medians of 20, on 27
November. A device that runs nothing but products is held back by its power; beside other kernels it may be faster.

Of A100 by the same line the products of 2,048 rows and more that Azure publishes, after warming up until clocks are
sustained (gemm_kernels.csv), and the fastest of many shapes (matmul_achievable_flops.csv). Of PyTorch what it takes
over the bytes of its sums and activations, and of its losses (`operations`), measured on H100 with the products. What
it does not vectorise was measured the day after on another such H100, alone (30 ms of repeats) and inside layers of
nanotron (h100_layers.csv, `benchmarks/gpu_layers.py`): constants of `kernels/copies.py` and `kernels/states.py`.

Other sources: github.com/zzc0721/torch-performance-test-data, issues 77 and 78 (October 2025, PyTorch 2.7, rates by
size).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from lockstep.hardware import Device, device, efficiency
from lockstep.types.arrays import Floats
from lockstep.validation.case import read_rows

DEVICES = {"H20": "h20", "RTX 4090": "rtx-4090"}
SMALLEST, LEAST_FACTOR = 2048, 0.01
H100_FILE, H100_KINDS = "h100_kernels.csv", ("matmul.", "fp8.tensorwise.", "copy", "add")
LAYERS_FACTOR = 0.5
"""Least c there: products of layers are large and do not tell it, and of c = 0 narrow ones would cost nothing more: one
of 4,096 x 4,096 x 512 took 41 us, where its arithmetic alone takes 24 (`lockstep bench device`)."""
A100_FILES, A100_CURVE = ("gemm_kernels.csv", "matmul_achievable_flops.csv"), ("matmul_max_frac", "matmul_bytes_factor")
H100_CURVE = ("matmul_max_frac", "matmul_bytes_factor", "fp8_frac", "stream_frac")
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


def h100() -> dict[str, float]:
    """Constants of the curve of H100."""
    found = device("h100-sxm")
    bandwidth_Bps = found.memory_bandwidth_Bps
    rows = {kind: [row for row in read_rows(H100_FILE) if row["kernel"].startswith(kind)] for kind in H100_KINDS}
    flops, size_B, time_s = _products(rows["matmul."])
    slowness, factor = _line(found, flops, size_B, time_s)
    flops, size_B, time_s = _products(rows["fp8.tensorwise."], input_B=1.0)
    alone_s = time_s - factor * size_B / bandwidth_Bps
    fp8_frac = np.median(flops / (found.peak("fp8") * alone_s)) * slowness
    elements = 2.0**28
    streams = [passes * 2.0 * elements / (float(row["time_us"]) * 1e-6) for row, passes in _streams(rows)]
    constants = (1.0 / slowness, factor, fp8_frac, np.mean(streams) / bandwidth_Bps)
    return {name: float(f"{value:.3g}") for name, value in zip(H100_CURVE, constants, strict=True)}


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


def _products(rows: Sequence[dict[str, str]], input_B: float = 2.0) -> tuple[Floats, Floats, Floats]:
    """FLOPs, bytes of inputs and of a result in half precision, and seconds."""
    m, n, k = np.array([[float(side) for side in row["shape"].split("x")] for row in rows]).T
    time_s = np.array([float(row["time_us"]) for row in rows]) * 1e-6
    return 2.0 * m * n * k, 2.0 * m * n + input_B * (m * k + n * k), time_s


def _streams(rows: dict[str, list[dict[str, str]]]) -> list[tuple[dict[str, str], int]]:
    """A copy, which reads and writes, and an addition, which reads twice."""
    return [(rows["copy"][0], 2), (rows["add"][0], 3)]


def main() -> None:
    """Prints the constants of every device."""
    for gpu, name in DEVICES.items():
        most, factor = fit(gpu)
        print(f"{name}: matmul_max_frac = {most:g}, matmul_bytes_factor = {factor:g}")
    print("a100:", ", ".join(f"{name} = {value:g}" for name, value in a100().items()))
    print("operations:", operations())
    print("h100:", ", ".join(f"{name} = {value:g}" for name, value in h100().items()))


if __name__ == "__main__":
    main()
