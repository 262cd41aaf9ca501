"""`python -m lockstep.validation.products`: curves of devices that no step was fitted on, from products alone.

torch.matmul of n x n by n x n in bf16 takes 2 n^3 / (peak e) + c 6 n^2 / bandwidth (`hardware/device.py`), so that

    1 / f_n = 1 / e + c x_n        f_n the fraction of the peak that was measured, x_n = 3 peak / (n bandwidth)

is a line, fitted by least squares with c not below 0.01 and e not above 1. Products of 1,024 rows, which wait for their
launch, are left out. What else the curve needs is that of the same generation's device whose steps were fitted.

Source: github.com/zzc0721/torch-performance-test-data, issues 77 and 78 (October 2025, PyTorch 2.7, rates by size).
"""

from __future__ import annotations

import numpy as np

from lockstep.hardware import device
from lockstep.validation.case import read_rows

DEVICES = {"H20": "h20", "RTX 4090": "rtx-4090"}
SMALLEST, LEAST_FACTOR = 2048, 0.01


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


def main() -> None:
    """Prints both constants of every device."""
    for gpu, name in DEVICES.items():
        most, factor = fit(gpu)
        print(f"{name}: matmul_max_frac = {most:g}, matmul_bytes_factor = {factor:g}")


if __name__ == "__main__":
    main()
