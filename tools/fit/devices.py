"""`python tools/fit/devices.py`: curves of devices whose kernels others measured, without any step.

B300 and GB300 are B200 times what their kernels take over those of B200 in the same benchmark (aiconfigurator_gemm.csv,
the faster of three engines, shapes of training): every product of the table is given the seconds that B200's curve has
for it, times that ratio, and e and c of `describe/hardware/device.py` are fitted to these. L40S is fitted to its own
seconds in that table.

AMD's products are the tuned ones of AITER (aiter_gemm_amd.csv) in fp8 and on MI355X in bf16, and the best products of
matmul_achievable_flops.csv on MI300X and MI325X in bf16. Benchmarks as short as these find a device at a higher clock
than steps do: products of training shapes take `SUSTAINED` times as long on one H100, whose seconds in
aiconfigurator_gemm.csv stand beside those of `products.py`, measured over 60 ms. AMD's devices are taken to lose as
much, and MI350X against MI355X, of which only one was measured, the root of their power limits' ratio
(`describe/hardware/power.py`: products alone at a limit P run at a rate that grows with the root of P).

Reads the tables from the folder that LOCKSTEP_DATA names. Sources: ai-dynamo/aiconfigurator@095f58a (Apache-2.0),
ROCm/aiter@e404860 (MIT), stas00/ml-engineering.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from lockstep.base.types.arrays import Floats
from lockstep.check.validation.case import read_rows
from lockstep.describe.hardware import Device, device
from lockstep.price.kernels.clock import INPUT_B, Clock

ENGINES = ("trtllm_us", "vllm_us", "sglang_us")
FORMATS = {"bf16": "bfloat16", "fp8": "fp8", "fp4": "nvfp4"}
LEAST_ROWS, LEAST_WIDTH, LEAST_AMD_ROWS = 2048, 1024, 4096
"""Tokens of products that are fitted to, and width of their matrices: smaller ones wait for their launch."""
LIKE_B200 = {"b300": "B300-SXM6-AC", "gb300": "GB300"}
B200, H100, L40S, MI355X, MI300X = "B200-SXM", "H100-SXM5-80GB", "L40S", "MI350X", "MI300X"

Shape = tuple[float, float, float]


def _rows(file: str) -> list[dict[str, str]]:
    with (Path(os.environ["LOCKSTEP_DATA"]) / file).open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def _shape(row: Mapping[str, str]) -> Shape:
    return float(row["m"]), float(row["n"]), float(row["k"])


def benchmark(gpu: str, dtype: str) -> dict[Shape, float]:
    """Seconds of products of one device, with the quantising of what they read where they are narrow."""
    found = {}
    for row in _rows("aiconfigurator_gemm.csv"):
        m, n, k = _shape(row)
        if (row["gpu"], row["dtype"]) == (gpu, FORMATS[dtype]) and m >= LEAST_ROWS and min(n, k) >= LEAST_WIDTH:
            found[m, n, k] = min(float(row[engine]) for engine in ENGINES if row[engine]) * 1e-6
    return found


def tuned(gpu: str, dtype: str) -> dict[Shape, float]:
    """Seconds of AITER's products."""
    found = {}
    for row in _rows("aiter_gemm_amd.csv"):
        m, n, k = _shape(row)
        if row["gpu"].startswith(gpu) and row["dtype"] == dtype and m >= LEAST_AMD_ROWS and min(n, k) >= LEAST_WIDTH:
            found[m, n, k] = float(row["time_us"]) * 1e-6
    return found


def priced(name: str, dtype: str, shapes: Mapping[Shape, float]) -> Floats:
    """Seconds that a device's curve has for products."""
    clock = Clock(device(name), dtype)
    return np.array([float(clock.matmul(*shape).device_s) for shape in shapes])


def sustained() -> float:
    """Seconds of products on H100 inside of long runs over those of the short benchmark: the median."""
    known = benchmark(H100, "bf16")
    return float(np.median(priced("h100-sxm", "bf16", known) / np.array([*known.values()])))


def line(found: Device, dtype: str, seconds: Mapping[Shape, float]) -> tuple[float, float]:
    """(e, c) of seconds = flops / (peak e) + c bytes / bandwidth, by least squares of relative errors."""
    from scipy.optimize import lsq_linear

    m, n, k = np.array([*seconds]).T
    size_B = INPUT_B.get(dtype, 2.0) * (m * k + k * n) + 2.0 * m * n
    terms = np.column_stack([2.0 * m * n * k / found.peak(dtype), size_B / found.memory_bandwidth_Bps])
    taken = np.array([*seconds.values()])
    slowness, factor = lsq_linear(terms / taken[:, None], np.ones(len(taken)), bounds=([1.0, 0.01], np.inf)).x
    return float(1.0 / slowness), float(factor)


def like_b200(name: str) -> dict[str, float]:
    """Constants of a device that is B200 times the ratio of their kernels."""
    lines = {}
    for dtype in FORMATS:
        own, other = benchmark(LIKE_B200[name], dtype), benchmark(B200, dtype)
        base_s = _pure(device("b200"), dtype, own)
        lines[dtype] = line(device(name), dtype, {at: s * own[at] / other[at] for at, s in base_s.items()})
    return _constants(lines)


def _pure(found: Device, dtype: str, shapes: Mapping[Shape, float]) -> dict[Shape, float]:
    """Seconds of products that are all in one format, by the device's curve."""
    curve, bandwidth_Bps = found.efficiency, found.memory_bandwidth_Bps
    rate = found.peak(dtype) * curve.matmul_max_frac * curve.narrow_frac(dtype)
    factor = curve.matmul_bytes_factor * curve.narrow_bytes_factor(dtype)
    width = INPUT_B.get(dtype, 2.0)
    return {
        (m, n, k): 2.0 * m * n * k / rate + factor * (width * (m * k + k * n) + 2.0 * m * n) / bandwidth_Bps
        for m, n, k in shapes
    }


def _constants(lines: Mapping[str, tuple[float, float]]) -> dict[str, float]:
    most, factor = lines["bf16"]
    found = {"matmul_max_frac": most, "matmul_bytes_factor": factor}
    for dtype, (narrow, other) in lines.items():
        if dtype != "bf16":
            found[f"{dtype}_frac"], found[f"{dtype}_bytes_factor"] = narrow / most, other / factor
    return {name: float(f"{value:.3g}") for name, value in found.items()}


def l40s() -> dict[str, float]:
    """Constants of L40S."""
    found, products = device("l40s"), benchmark(L40S, "fp8")
    stream_Bps = found.memory_bandwidth_Bps * found.efficiency.stream_frac
    # Casts are priced by themselves: reading half precision and writing fp8.
    products = {(m, n, k): seconds - 3.0 * m * k / stream_Bps for (m, n, k), seconds in products.items()}
    return _constants({"bf16": line(found, "bf16", benchmark(L40S, "bf16")), "fp8": line(found, "fp8", products)})


def mi355x() -> dict[str, float]:
    """Constants of MI355X: products of AITER, as long runs take them."""
    slower, found = sustained(), device("mi355x")
    names = {"bf16": "bfloat16", "fp8": "fp8_row", "fp4": "mxfp4"}
    return _constants(
        {
            dtype: line(found, dtype, {at: slower * s for at, s in tuned(MI355X, name).items()})
            for dtype, name in names.items()
        }
    )


def best_frac(accelerator: str) -> float:
    """Share of its bf16 peak that a device's best product reaches in long runs."""
    rates = {row["accelerator"]: float(row["mamf_tflops"]) for row in read_rows("matmul_achievable_flops.csv")}
    peak = device(accelerator.split()[-1].lower()).peak("bf16")
    return rates[accelerator] * 1e12 / peak / sustained()


def mi300x() -> dict[str, float]:
    """Constants of MI300X: one best product in bf16, AITER's products by blocks in fp8."""
    narrow, factor = line(
        device("mi300x"), "fp8", {at: sustained() * s for at, s in tuned(MI300X, "fp8_block128").items()}
    )
    return _constants({"bf16": (best_frac("AMD MI300X"), factor), "fp8": (narrow, factor)})


def faster(name: str, other: str, times: float) -> dict[str, float]:
    """Constants of a device whose products run at so many times the rates of another's, with the same chip."""
    found, base = device(name), device(other)
    peaks = found.peak("bf16") / base.peak("bf16")
    memory = found.memory_bandwidth_Bps / base.memory_bandwidth_Bps
    most_frac = base.efficiency.matmul_max_frac * times / peaks
    factor = base.efficiency.matmul_bytes_factor * memory / times
    return {"matmul_max_frac": float(f"{most_frac:.3g}"), "matmul_bytes_factor": float(f"{factor:.3g}")}


def mi325x() -> dict[str, float]:
    """Constants of MI325X: as much faster than MI300X as its best product."""
    rates = [best_frac(f"AMD {name}") * device(name.lower()).peak("bf16") for name in ("MI325X", "MI300X")]
    return faster("mi325x", "mi300x", rates[0] / rates[1])


def mi350x() -> dict[str, float]:
    """Constants of MI350X: MI355X's, by the root of their limits of power."""
    limits_W = [device(name).tdp_W or 1.0 for name in ("mi350x", "mi355x")]
    return faster("mi350x", "mi355x", float(np.sqrt(limits_W[0] / limits_W[1])))


def main() -> None:
    """Prints the constants of every device."""
    print(f"sustained: {sustained():.3f}")
    for name in LIKE_B200:
        print(name, like_b200(name))
    for found in (l40s, mi300x, mi325x, mi355x, mi350x):
        print(found.__name__, found())


if __name__ == "__main__":
    main()
