"""Data parallelism: gradients reduced in buckets (DDP), sharded states gathered and scattered (FSDP, ZeRO).

Every policy has a `price` (closed form or recurrence), `operations` and a `program` whose simulation equals the price.
"""

from lockstep.parallel.data import buckets, sharded
from lockstep.parallel.data.buckets import BucketRow, BucketSweep, optimum, sweep
from lockstep.parallel.data.layers import Layers
from lockstep.parallel.data.sharded import Units, peak_gathered_B

__all__ = [
    "BucketRow",
    "BucketSweep",
    "Layers",
    "Units",
    "buckets",
    "optimum",
    "peak_gathered_B",
    "sharded",
    "sweep",
]
