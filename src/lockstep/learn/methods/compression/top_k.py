"""Top-k: the k entries of largest magnitude, each with its index.

    C(x)_i = x_i for the k largest |x_i|, else 0             q = k / d, reached where all |x_i| are equal
    payload = k (value + index)
k = keep_frac d, rounded. Biased; ranks choose different entries, so sums are denser than payloads. With 32-bit values
and indices it saves 1 - 2 keep_frac of the bytes, not 1 - keep_frac, and nothing from keep_frac = 1/2 on.

Sources: Aji, Heafield, "Sparse communication for distributed gradient descent", EMNLP 2017; Stich, Cordonnier, Jaggi,
"Sparsified SGD with memory", NeurIPS 2018, definition 2.1 and lemma A.1 (q).

`Sparsifier`: which entries travel, and how they come back: the common part with random-k and threshold.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

from numpy.random import Generator

from lockstep.base.records import dataclass
from lockstep.base.settings import setting
from lockstep.learn.methods.arrays import Array, cast, flat, ieee, namespace, place
from lockstep.learn.methods.compression.compressor import (
    Compressor,
    Payload,
    State,
    check_index_bits,
    check_share,
    kept_elems,
)


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
    """Ascending indices [count] of the entries of `vector` [elems] of largest magnitude: first of equals, NaN first."""
    library = namespace(vector)
    sizes = library.abs(vector)
    sizes[vector != vector] = math.inf
    if count >= len(vector):
        return library.arange(len(vector), **place(vector))
    if library.__name__ == "numpy":
        edge = library.partition(sizes, len(vector) - count)[len(vector) - count]
    else:
        edge = library.topk(sizes, count, sorted=True).values[-1]
    found = nonzero(sizes >= edge)
    if len(found) == count:
        return found
    chosen = sizes > edge
    ties = nonzero(sizes == edge)
    chosen[ties[: count - int(chosen.sum())]] = True
    return nonzero(chosen)


def nonzero(mask: Array) -> Array:
    """Ascending indices [true] where `mask` [elems] is true."""
    return namespace(mask).where(mask)[0]


def sparse(vector: Array, indices: Array, index_bits: int) -> Payload:
    """The entries of `vector` [elems] at `indices` [kept], with their indices."""
    return Payload((vector[indices], cast(indices, f"int{index_bits}")), len(vector))


def scattered(values: Array, indices: Array, num_elems: int) -> Array:
    """A vector [elems] of zeros with `values` [kept] at `indices` [kept]."""
    vector = namespace(values).zeros(num_elems, dtype=values.dtype, **place(values))
    vector[indices] = values
    return vector


@dataclass(frozen=True, slots=True)
class TopK(Sparsifier):
    """Keeps a share of the entries, the largest."""

    name: ClassVar[str] = "top-k"
    summary: ClassVar[str] = "the largest entries"
    source: ClassVar[str] = "Aji & Heafield 2017; Stich et al. 2018"

    def contraction_frac(self, num_elems: int) -> float:
        """k / d."""
        return kept_elems(self.keep_frac, num_elems) / num_elems

    @ieee
    def compress(
        self, vector: Array, state: State, generator: Generator, agreed: Array | None = None
    ) -> tuple[Payload, State]:
        """Values and indices."""
        entries = flat(vector)
        return sparse(entries, largest(entries, kept_elems(self.keep_frac, len(entries))), self.index_bits), state
