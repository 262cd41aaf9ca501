"""Top-k: the k entries of largest magnitude, each with its index.

    C(x)_i = x_i for the k largest |x_i|, else 0             q = k / d, reached where all |x_i| are equal
    payload = k (value + index)
k = keep_frac d, rounded. Biased; ranks choose different entries, so sums are denser than payloads. With 32-bit values
and indices it saves 1 - 2 keep_frac of the bytes, not 1 - keep_frac, and nothing from keep_frac = 1/2 on.

Sources: Aji, Heafield, "Sparse communication for distributed gradient descent", EMNLP 2017; Stich, Cordonnier, Jaggi,
"Sparsified SGD with memory", NeurIPS 2018, definition 2.1 and lemma A.1 (q).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from numpy.random import Generator

from lockstep.methods.arrays import Array, flat
from lockstep.methods.compression.compressor import (
    Compressor,
    Payload,
    State,
    check_index_bits,
    check_share,
    kept_elems,
)
from lockstep.methods.compression.selection import largest, scattered, sparse


@dataclass(frozen=True, slots=True)
class TopK(Compressor):
    """Keeps a share of the entries, the largest."""

    name: ClassVar[str] = "top-k"
    source: ClassVar[str] = "Aji & Heafield 2017; Stich et al. 2018"
    neutral: ClassVar[dict[str, Any] | None] = {"keep_frac": 1.0}
    keep_frac: float = 0.01
    index_bits: int = 32

    def __post_init__(self) -> None:
        check_share(self.keep_frac, "keep_frac")
        check_index_bits(self.index_bits)

    def contraction_frac(self, num_elems: int) -> float:
        """k / d."""
        return kept_elems(self.keep_frac, num_elems) / num_elems

    def size_B(self, num_elems: int, value_B: int = 4) -> float:
        """k (value + index)."""
        return kept_elems(self.keep_frac, num_elems) * (value_B + self.index_bits // 8)

    def compress(
        self, vector: Array, state: State, generator: Generator, agreed: Array | None = None
    ) -> tuple[Payload, State]:
        """Values and indices."""
        entries = flat(vector)
        return sparse(entries, largest(entries, kept_elems(self.keep_frac, len(entries))), self.index_bits), state

    def decompress(self, payload: Payload) -> Array:
        """Zeros where nothing was sent."""
        values, indices = payload.arrays
        return scattered(values, indices, payload.num_elems)
