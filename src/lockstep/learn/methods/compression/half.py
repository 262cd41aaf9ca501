"""Half precision on the wire: every entry as fp16.

    |C(x)_i - x_i| <= 2^-11 |x_i| for 2^-14 <= |x_i| <= 65504
Smaller entries lose more (2^-25 at most, in absolute terms), larger ones become infinite: no q holds for every
vector. Sums of n ranks stay finite only while n times the largest entry is below 65520; average before sending, or in
more bits.

Source: IEEE 754-2019, binary16; the hook of the same name in PyTorch's DistributedDataParallel.
"""

from __future__ import annotations

from typing import ClassVar

from numpy.random import Generator

from lockstep.base.records import dataclass
from lockstep.learn.methods.arrays import Array, cast, flat, ieee, like
from lockstep.learn.methods.compression.compressor import Compressor, Payload, State


@dataclass(frozen=True, slots=True)
class Half(Compressor):
    """Two bytes per entry."""

    name: ClassVar[str] = "fp16"
    summary: ClassVar[str] = "16-bit gradients"
    source: ClassVar[str] = "IEEE 754-2019, binary16"
    summable: ClassVar[bool] = True

    def size_B(self, num_elems: int, value_B: int = 4) -> float:
        """2 d."""
        return 2 * num_elems

    @ieee
    def compress(
        self, vector: Array, state: State, generator: Generator, agreed: Array | None = None
    ) -> tuple[Payload, State]:
        """Rounded entries."""
        entries = flat(vector)
        return Payload((cast(entries, "float16"),), len(entries), shared=entries[:0]), state

    @ieee
    def decompress(self, payload: Payload) -> Array:
        """The rounded entries, in the precision they had."""
        return like(payload.arrays[0], payload.shared)
