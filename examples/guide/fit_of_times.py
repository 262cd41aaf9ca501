"""Section 5.6, latency and bandwidth from times of all-reduces.

The guide's listing fits a line through times of which the longest are 10,000 times the shortest: their errors hide the
latency, which may even come out negative. It takes the slope for the rate of a link, though an all-reduce of P ranks
moves 2 (P - 1) / P times its size, and puts every rank on GPU 0. Weights of 1 / t make errors relative. For your own
times `lockstep fit FILE` does this, with intervals.

    python examples/guide/fit_of_times.py
    torchrun --nproc-per-node 4 examples/guide/fit_of_times.py
"""

import time

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from processes import run

SIZES_B = np.array([8 * 4**power for power in range(9)])
Times = NDArray[np.float64]


def line(sizes_B: Times, times_s: Times, *, weighted: bool) -> tuple[float, float]:
    """Latency in seconds and bandwidth in bytes a second of t = latency + size / bandwidth, by least squares."""
    weights = 1 / times_s if weighted else np.ones_like(times_s)
    columns = np.stack([np.ones_like(times_s), sizes_B], axis=1) * weights[:, None]
    latency_s, s_per_B = np.linalg.lstsq(columns, times_s * weights)[0]
    return float(latency_s), float(1 / s_per_B)


def measured_s() -> Times:
    """Of each size the shortest of five all-reduces, as the slowest rank sees it."""
    found = []
    for size_B in SIZES_B:
        buffer = torch.zeros(int(size_B) // 8, dtype=torch.float64)
        took_s = torch.full((5,), 0.0, dtype=torch.float64)
        for repeat in range(5):
            dist.barrier()
            begin_s = time.perf_counter()
            dist.all_reduce(buffer)
            took_s[repeat] = time.perf_counter() - begin_s
        dist.all_reduce(took_s, op=dist.ReduceOp.MAX)
        found.append(float(took_s.min()))
    return np.array(found)


def work() -> str:
    """Both fits of times that are made, where the answer is known, with errors of 2 %; then one of measured times."""
    sizes_B = 1e3 * 4.0 ** np.arange(9)
    errors = 1 + 0.02 * np.array([1, -1, 1, 1, -1, -1, 1, 1, -1])
    made_s = (20e-6 + sizes_B / 10e9) * errors
    wrong_s, _ = line(sizes_B, made_s, weighted=False)
    latency_s, bandwidth_Bps = line(sizes_B, made_s, weighted=True)
    assert abs(latency_s / 20e-6 - 1) < 0.03
    assert abs(bandwidth_Bps / 10e9 - 1) < 0.03
    assert abs(wrong_s / 20e-6 - 1) > 0.3
    ranks = dist.get_world_size()
    _, slope_Bps = line(SIZES_B.astype(float), measured_s(), weighted=True)
    return (
        f"fit of times: 20 us made, {latency_s * 1e6:.1f} us found with weights, {wrong_s * 1e6:.1f} us without; "
        f"this machine all-reduces {slope_Bps / 1e9:.2g} GB/s, {slope_Bps * 2 * (ranks - 1) / ranks / 1e9:.2g} GB/s "
        "of a link"
    )


if __name__ == "__main__":
    run(work)
