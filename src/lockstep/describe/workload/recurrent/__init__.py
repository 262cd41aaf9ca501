"""Recurrent mixers: layers whose memory of the sequence is a state of fixed size, one file each.

Each says its weights, the FLOPs of its scan, what it keeps for the backward pass, and its kernels: products in chunks
and streams through memory.
"""

from lockstep.describe.workload.recurrent.chunk import Product as Product
from lockstep.describe.workload.recurrent.chunk import Stream as Stream
from lockstep.describe.workload.recurrent.delta import DeltaNet as DeltaNet
from lockstep.describe.workload.recurrent.mamba import Mamba as Mamba
from lockstep.describe.workload.recurrent.mamba2 import Mamba2 as Mamba2

Recurrent = Mamba | Mamba2 | DeltaNet
KINDS: dict[str, type[Mamba] | type[Mamba2] | type[DeltaNet]] = {
    "mamba": Mamba, "mamba2": Mamba2, "delta": DeltaNet,
}  # fmt: skip
"""Word in a model file -> its record."""
