"""`python tools/fit/power.py`: how an H100's power limit slows its kernels, from layers and kernels alone.

Layers of six models ran in a loop on one H100 SXM of 700 W (PyTorch 2.11, CUDA 13.0, 27 November 2026,
`benchmarks/gpu_clocks.py`), and their products and attention alone: h100_clocks.csv has seconds by torch's profiler and
the clock beside them. Alone products hold the device at 1,110 to 1,350 of 1,980 MHz, FlashAttention-2 leaves it at
1,980 on short sequences and draws 650 W there; inside of layers it runs at 1,340 to 1,980. Fitted by least squares to
logarithms of the seconds of products in layers, and with half the weight alone:

    e, c         rate and operand traffic of products at the full clock (`products.py`)
    e8, c8       the same in fp8
    W, W8, V     watts of products in either format, and of kernels that move memory, at the full clock

under `PowerLimit`, with weak pulls of e and e8 to 0.92 and 0.9, of c and c8 to 0.3 and of V to 450 W. Attention is
priced by its curve. The rates of the catalog are those of products alone: e times the clock that they keep. Compiled
layers in bf16 and torchao's fp8, hc26 and on, ran on two other such cards (`compiled_layers.py`), without their clocks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.types.arrays import Floats
from lockstep.check.validation.case import read_rows
from lockstep.describe.hardware import device, efficiency
from lockstep.describe.hardware.power import PowerLimit

FILE, DEVICE, CURVE = "h100_clocks.csv", "h100-sxm", "h100"
LIMIT_W, ATTENTION_W = 700.0, 650.0
ALONE_WEIGHT = 0.5
START = (0.92, 0.3, 0.9, 0.6, 1130.0, 1200.0, 450.0)
PULLS = ((0, 0.92, 0.06), (1, 0.3, 0.5), (2, 0.9, 1.0), (3, 0.3, 5.0), (6, 450.0, 100.0))
"""Place of a constant, the value that it is pulled to, and how far from it counts as much as an error of one."""


class Layer(NamedTuple):
    """Seconds of a row: products at the peak and the traffic of their operands, attention at the full clock, others."""

    row: str
    dtype: str
    arithmetic_s: float
    traffic_s: float
    attention_s: float
    memory_s: float
    products_s: float
    alone_s: float | None
    attention_taken_s: float


def layers() -> list[Layer]:
    """The rows of the table."""
    return [_layer(row) for row in read_rows(FILE)]


def _layer(row: dict[str, str]) -> Layer:
    gpu, fp8 = device(DEVICE), row["dtype"] == "fp8"
    tokens = int(row["seq"]) * int(row["micro_batch"])
    hidden, ffn, heads, kv, head = (int(row[name]) for name in ("hidden", "ffn", "heads", "kv_heads", "head_dim"))
    shapes = ((heads + 2 * kv) * head, hidden), (hidden, heads * head), ((1 + int(row["gated"])) * ffn, hidden)
    flops, size_B = 0.0, 0.0
    for n, k in (*shapes, (hidden, ffn)):
        flops += 6.0 * tokens * n * k
        read = 2.0 * (tokens * k + tokens * n + n * k)
        size_B += 2.0 * (tokens * n + tokens * k + n * k) + read * (1.0 if fp8 else 2.0)
    scores = 2.0 * int(row["micro_batch"]) * heads * int(row["seq"]) ** 2 * head
    kernel, seq = efficiency(CURVE).attention[row["attention"]], int(row["seq"])
    times = ((times, kernel.frac(seq, head, causal=True, backward=back)) for times, back in ((1.0, False), (2.5, True)))
    seconds = {name: float(row[name]) * 1e-6 if row[name] else None for name in row if name.endswith("_us")}
    return Layer(
        f"{row['row_id']} {row['case']} {row['dtype']}",
        row["dtype"],
        flops / gpu.peak(row["dtype"]),
        size_B / gpu.memory_bandwidth_Bps,
        sum(float(many * scores / (gpu.peak("bf16") * frac)) for many, frac in times),
        seconds["other_us"] or 0.0,
        seconds["product_us"] or 0.0,
        seconds["alone_product_us"],
        (seconds["attention_forward_us"] or 0.0) + (seconds["attention_backward_us"] or 0.0),
    )


def limit(products_W: float, fp8_W: float, memory_W: float) -> PowerLimit:
    """The law with these watts."""
    return PowerLimit(LIMIT_W, {"bf16": products_W, "fp8": fp8_W}, ATTENTION_W, memory_W)


def predicted(constants: Floats, one: Layer) -> tuple[float, float, float]:
    """Seconds of products in the layer and alone, and of attention over those at the full clock."""
    *rates, products_W, fp8_W, memory_W = map(float, constants)
    law, fp8 = limit(products_W, fp8_W, memory_W), one.dtype == "fp8"
    full_frac, traffic = rates[2:] if fp8 else rates[:2]
    alone_s = one.arithmetic_s / (full_frac * law.alone_frac(one.dtype)) + traffic * one.traffic_s
    products, attention = law.factors(one.dtype, alone_s, one.attention_s, one.memory_s)
    return alone_s * float(products), alone_s, float(attention)


def fit() -> dict[str, float]:
    """Constants of the catalog: of the curve, and of its power limit."""
    from scipy.optimize import least_squares

    rows = layers()

    def errors(constants: Floats) -> list[float]:
        found = []
        for one in rows:
            inside_s, alone_s, _ = predicted(constants, one)
            found.append(np.log(inside_s / one.products_s))
            if one.alone_s is not None:
                found.append(ALONE_WEIGHT * np.log(alone_s / one.alone_s))
        return found + [(constants[place] - value) / width for place, value, width in PULLS]

    full_frac, traffic, fp8_frac, fp8_traffic, *watts = least_squares(errors, START, x_scale=START).x
    law = limit(*watts)
    rate = full_frac * law.alone_frac("bf16")
    return {
        "matmul_max_frac": float(f"{rate:.3g}"),
        "matmul_bytes_factor": float(f"{traffic:.3g}"),
        "fp8_frac": float(f"{fp8_frac * law.alone_frac('fp8') / rate:.3g}"),
        "fp8_bytes_factor": float(f"{fp8_traffic / traffic:.3g}"),
        "bf16_W": float(f"{watts[0]:.4g}"),
        "fp8_W": float(f"{watts[1]:.4g}"),
        "memory_W": float(f"{watts[2]:.3g}"),
    }


def of_catalog() -> Floats:
    """The constants as `predicted` takes them, at the full clock."""
    curve = efficiency(CURVE)
    law = curve.power
    if law is None:
        raise BadInput(f"curve {CURVE} has no limit of power")
    full = curve.matmul_max_frac / law.alone_frac("bf16")
    full8 = curve.matmul_max_frac * curve.fp8_frac / law.alone_frac("fp8")
    traffic = curve.matmul_bytes_factor
    rates = full, traffic, full8, traffic * curve.fp8_bytes_factor
    return np.array([*rates, *law.products_W.values(), law.memory_W])


def main() -> None:
    """Prints the constants of the fit, and how those of the catalog meet every layer."""
    print(", ".join(f"{name} = {value:g}" for name, value in fit().items()))
    for one in layers():
        inside_s, alone_s, factor = predicted(of_catalog(), one)
        attention_s = factor * one.attention_s
        alone = f", alone {alone_s / one.alone_s - 1:+.1%}" if one.alone_s else ""
        print(
            f"{one.row}: products {inside_s / one.products_s - 1:+.1%}{alone}, attention "
            f"{attention_s / one.attention_taken_s - 1:+.1%}"
        )


if __name__ == "__main__":
    main()
