"""Codes on a grid of equal steps: the common part of the quantisers.

    C(x)_i = round(x_i / h) h,   h: the reach of the grid over its levels;   codes from -s to s
Codes of 1, 2, 4 or 8 bits are packed in bytes, so that what is counted is what travels.

`rounded`: to the nearest whole number, or up with the probability that makes it unbiased.

    stochastic: floor(x) + 1 with probability x - floor(x)   E = x,  variance = f (1 - f),  f = x - floor(x)
The probability of a neighbour is its closeness, not its distance; whole numbers stay as they are.
"""

from __future__ import annotations

from abc import abstractmethod

from numpy.random import Generator

from lockstep.base.errors import UnknownName
from lockstep.learn.methods.arrays import Array, cast, flat, ieee, like, namespace
from lockstep.learn.methods.compression.compressor import Compressor, Payload, State

ROUNDINGS = ("stochastic", "nearest")


def packed_B(num_elems: int, bits: int) -> int:
    """Bytes of that many codes."""
    return -(-num_elems * bits // 8)


def pack(codes: Array, bits: int) -> Array:
    """Bytes [packed] that hold non-negative `codes` [elems] below 2**bits, the first code in the lowest bits."""
    library = namespace(codes)
    per_byte = 8 // bits
    padding = library.zeros_like(codes[:1]).repeat(-len(codes) % per_byte)
    rows = cast(library.concatenate((codes, padding)), "uint8").reshape(-1, per_byte)
    packed = rows[:, 0]
    for place in range(1, per_byte):
        packed = packed | (rows[:, place] << (bits * place))
    return packed


def unpack(packed: Array, bits: int, num_elems: int) -> Array:
    """The first `num_elems` codes [elems] of the bytes [packed], as whole numbers of 32 bits."""
    library = namespace(packed)
    columns = [(packed >> (bits * place)) & (2**bits - 1) for place in range(8 // bits)]
    return cast(library.stack(columns, 1).reshape(-1)[:num_elems], "int32")


def check_rounding(rounding: str) -> None:
    """Raises `UnknownName` unless it is a way to round."""
    if rounding not in ROUNDINGS:
        raise UnknownName("rounding", rounding, ROUNDINGS, "rounding")


def rounded(values: Array, rounding: str, generator: Generator) -> Array:
    """Whole numbers [elems] of the same kind as `values` [elems]; the nearest takes halves to even."""
    library = namespace(values)
    if rounding == "nearest":
        return library.round(values)
    below = library.floor(values)
    return below + like(like(generator.random(len(values)), values) < values - below, values)


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
        """Where the grid ends [], for the vector `entries` [elems]."""

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
