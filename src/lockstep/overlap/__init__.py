"""Overlap of computing and communicating: buckets (DDP), sharded prefetch (FSDP), chunks (tensor parallelism).

Every policy has a `price` (closed form or recurrence), `tasks` and a `program` whose simulation equals the price.
"""

from lockstep.overlap import buckets, chunked, sharded
from lockstep.overlap.buckets import BucketRow, BucketSweep, optimum, sweep
from lockstep.overlap.chunked import Product, best_chunks
from lockstep.overlap.lanes import Task, run
from lockstep.overlap.layers import Layers
from lockstep.overlap.result import Overlapped
from lockstep.overlap.sharded import Units, peak_gathered_B
from lockstep.overlap.traffic import Traffic

__all__ = [
    "BucketRow",
    "BucketSweep",
    "Layers",
    "Overlapped",
    "Product",
    "Task",
    "Traffic",
    "Units",
    "best_chunks",
    "buckets",
    "chunked",
    "optimum",
    "peak_gathered_B",
    "run",
    "sharded",
    "sweep",
]
