"""Data parallelism: gradients reduced in buckets (DDP), sharded states gathered and scattered (FSDP, ZeRO).

Every policy has a `price` (closed form or recurrence), `operations` and a `program` whose simulation equals the price.
"""

from lockstep.simulate.parallel.data import buckets as buckets
from lockstep.simulate.parallel.data import sharded as sharded
from lockstep.simulate.parallel.data.buckets import BucketRow as BucketRow
from lockstep.simulate.parallel.data.buckets import BucketSweep as BucketSweep
from lockstep.simulate.parallel.data.buckets import optimum as optimum
from lockstep.simulate.parallel.data.buckets import sweep as sweep
from lockstep.simulate.parallel.data.layers import Layers as Layers
from lockstep.simulate.parallel.data.sharded import Units as Units
from lockstep.simulate.parallel.data.sharded import peak_gathered_B as peak_gathered_B
