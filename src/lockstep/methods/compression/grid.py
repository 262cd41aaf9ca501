"""Codes on a grid of equal steps: the common part of the quantisers.

C(x)_i = round(x_i / h) h,   h: the reach of the grid over its levels;   codes from -s to s, packed
"""

from __future__ import annotations

from abc import abstractmethod

from numpy.random import Generator

from lockstep.methods.arrays import Array, flat, ieee, like, namespace
from lockstep.methods.compression.compressor import Compressor, Payload, State
from lockstep.methods.compression.packing import pack, packed_B, unpack
from lockstep.methods.compression.rounding import rounded


class Quantizer(Compressor):
    """Rounds to `levels` steps on either side of 0 that end at the reach of the vector; at random if `unbiased`."""

    @property
    @abstractmethod
    def bits(self) -> int:
        """Of a code."""

    @property
    @abstractmethod
    def levels(self) -> int:
        """s: steps from 0 to the reach."""

    @abstractmethod
    def reach(self, entries: Array) -> Array:
        """Where the grid ends, for that vector: a scalar."""

    def size_B(self, num_elems: int, value_B: int = 4) -> float:
        """Codes and one scale."""
        return packed_B(num_elems, self.bits) + value_B

    @ieee
    def compress(
        self, vector: Array, state: State, generator: Generator, agreed: Array | None = None
    ) -> tuple[Payload, State]:
        """Packed codes and the size of a step."""
        entries = flat(vector)
        library = namespace(entries)
        step = self.reach(entries).reshape(1) / self.levels
        places = entries / library.where(step > 0, step, library.ones_like(step))
        rounding = "stochastic" if self.unbiased else "nearest"
        codes = library.clip(rounded(places, rounding, generator), -self.levels, self.levels)
        # A NaN has no code: 0 stands for it, and the step, which is not finite then, makes it NaN again.
        codes = library.where(codes == codes, codes, library.zeros_like(codes))
        return Payload((pack(codes + self.levels, self.bits), step), len(entries)), state

    @ieee
    def decompress(self, payload: Payload) -> Array:
        """Codes times steps."""
        packed, step = payload.arrays
        return like(unpack(packed, self.bits, payload.num_elems) - self.levels, step) * step
