"""Which entries travel, and how they come back: the common part of the sparsifiers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from lockstep.methods.arrays import Array, cast, ieee, namespace, place
from lockstep.methods.compression.compressor import Compressor, Payload, check_index_bits, check_share, kept_elems
from lockstep.settings import setting


@dataclass(frozen=True, slots=True)
class Sparsifier(Compressor):
    """Keeps a share of the entries; a payload is values and their indices."""

    neutral: ClassVar[Mapping[str, Any] | None] = {"keep_frac": 1.0}
    keep_frac: float = setting(0.01, "Share of the entries that travel.")
    index_bits: int = setting(32, "Bits of an index, 32 or 64.")

    def __post_init__(self) -> None:
        check_share(self.keep_frac, "keep_frac")
        check_index_bits(self.index_bits)

    def size_B(self, num_elems: int, value_B: int = 4) -> float:
        """k (value + index)."""
        return kept_elems(self.keep_frac, num_elems) * (value_B + self.index_bits // 8)

    @ieee
    def decompress(self, payload: Payload) -> Array:
        """Zeros where nothing was sent."""
        values, indices = payload.arrays
        return scattered(values, indices, payload.num_elems)


def largest(vector: Array, count: int) -> Array:
    """Indices of the `count` entries of largest magnitude, ascending; of equal ones the first. NaN is the largest."""
    library = namespace(vector)
    sizes = library.where(vector == vector, library.abs(vector), library.full_like(vector, math.inf))
    if count >= len(vector):
        return library.arange(len(vector), **place(vector))
    if library.__name__ == "numpy":
        edge = library.partition(sizes, len(vector) - count)[len(vector) - count]
    else:
        edge = library.topk(sizes, count, sorted=True).values[-1]
    chosen = sizes > edge
    ties = nonzero(sizes == edge)
    chosen[ties[: count - int(chosen.sum())]] = True
    return nonzero(chosen)


def nonzero(mask: Array) -> Array:
    """Indices where a mask is true, ascending."""
    return namespace(mask).where(mask)[0]


def sparse(vector: Array, indices: Array, index_bits: int) -> Payload:
    """The entries at `indices` with their indices."""
    return Payload((vector[indices], cast(indices, f"int{index_bits}")), len(vector))


def scattered(values: Array, indices: Array, num_elems: int) -> Array:
    """A vector of zeros with `values` at `indices`."""
    vector = namespace(values).zeros(num_elems, dtype=values.dtype, **place(values))
    vector[indices] = values
    return vector
