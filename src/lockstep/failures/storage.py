"""How long a checkpoint takes to write: shards of all ranks, limited by each rank and by the storage they share.

    rate = min(ranks * rank_Bps, storage_Bps),   time = latency + size_B / rate
size_B: the whole checkpoint, each byte written once; ranks: how many write at the same time. Beyond
storage_Bps / rank_Bps ranks, more ranks do not help.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from lockstep.failures.arrays import Array, floats


def write_time_s(
    size_B: ArrayLike, ranks: ArrayLike = 1, *, rank_Bps: ArrayLike = math.inf, storage_Bps: ArrayLike = math.inf,
    latency_s: ArrayLike = 0.0,
) -> Array:  # fmt: skip
    """Seconds to write (or to read back) a sharded checkpoint. Broadcasts."""
    size, number, rank, storage, latency = floats(size_B, ranks, rank_Bps, storage_Bps, latency_s)
    return np.asarray(latency + size / np.minimum(number * rank, storage))
