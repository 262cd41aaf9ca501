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
from typing import ClassVar

from numpy.random import Generator

from lockstep.methods.arrays import Array, flat, ieee
from lockstep.methods.compression.compressor import Payload, State, kept_elems
from lockstep.methods.compression.selection import Sparsifier, largest, sparse


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
