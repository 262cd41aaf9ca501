"""`python tools/fit/reserved.py`: how much more the allocator holds than tensors take, where both are published.

The constants of `price/layout/reserved.py`: medians of published ratios, and of published reserved peaks over what is
predicted to be allocated. Reads the tables from the folder that LOCKSTEP_DATA names.
"""

from __future__ import annotations

import csv
import os
from pathlib import Path

import numpy as np

from lockstep.check.validation import torchtitan
from lockstep.price.layout import FRAMEWORK_B, memory

GIB, MIB = 2.0**30, 2.0**20
NOT_FULL_GIB = 70.0
"""Of 80 GB: beyond, the allocator gives blocks back."""


def fine_tunes() -> np.ndarray:
    """Of fms-acceleration: what nvidia-smi shows but for the context, over the peak of PyTorch's tensors."""
    shown, tensors = "mem_nvidia_smi_MiB_mean_over_gpus", "mem_torch_peak_alloc_GiB_rank0"
    rows = [row for row in _rows("fms_acceleration_a100.csv") if row[shown] and row[tensors]]
    held = np.array([float(row[shown]) * MIB - FRAMEWORK_B for row in rows])
    return (held / [float(row[tensors]) * GIB for row in rows])[held < NOT_FULL_GIB * GIB]


def megatron() -> np.ndarray:
    """Of BigScience's logs: reserved over allocated, both at their most, by rank."""
    rows = _rows("bigscience_v100_megatron_rank_memory.csv")
    rows = [row for row in rows if row["max_reserved_mb"] and row["max_allocated_mb"]]
    return np.array([float(row["max_reserved_mb"]) / float(row["max_allocated_mb"]) for row in rows])


def with_segments() -> np.ndarray:
    """Of torchtitan: reserved, over what is predicted to be allocated."""
    cases = torchtitan.memory_cases()
    return np.array(
        [one.measured / float(memory(one.job, one.cluster, one.layout.grid()).allocated_B) for one in cases]
    )


def _rows(file: str) -> list[dict[str, str]]:
    with (Path(os.environ["LOCKSTEP_DATA"]) / file).open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def main() -> None:
    """Prints the three ratios."""
    for what, found in (("fine-tunes", fine_tunes()), ("Megatron", megatron()), ("segments", with_segments())):
        low, middle, high = np.min(found), np.median(found), np.max(found)
        print(f"{what:12s} {len(found):4d} rows   median {middle:.3f}   {low:.2f} to {high:.2f}")


if __name__ == "__main__":
    main()
