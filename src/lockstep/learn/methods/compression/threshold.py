"""Hard threshold: every entry of at least a fixed magnitude, with its index.

    C(x)_i = x_i if |x_i| >= lambda, else 0                  |C(x) - x|^2 <= d lambda^2
Its error is bounded absolutely, not relative to the vector: no q above 0 holds for all vectors, and a vector of small
entries sends nothing at all. What travels depends on the vector.

Source: Sahu et al., "Rethinking gradient sparsification as total error minimization", NeurIPS 2021 (absolute
compressor); Strom, "Scalable distributed DNN training using commodity GPU cloud computing", Interspeech 2015.
"""

from __future__ import annotations

from typing import ClassVar

from numpy.random import Generator

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.settings import setting
from lockstep.base.types.plain import Json
from lockstep.learn.methods.arrays import Array, flat, ieee, namespace
from lockstep.learn.methods.compression.compressor import Compressor, Payload, State, check_index_bits
from lockstep.learn.methods.compression.top_k import nonzero, scattered, sparse


@dataclass(frozen=True, slots=True)
class Threshold(Compressor):
    """Keeps the entries of magnitude `threshold` and above."""

    name: ClassVar[str] = "threshold"
    summary: ClassVar[str] = "entries above a magnitude"
    source: ClassVar[str] = "Strom 2015; Sahu et al. 2021"
    neutral: ClassVar[Json | None] = {"threshold": 0.0}
    threshold: float = setting(1e-3, "Smallest magnitude that travels.")
    index_bits: int = setting(32, "Bits of an index, 32 or 64.")

    def __post_init__(self) -> None:
        if not 0 <= self.threshold < float("inf"):
            raise BadInput(f"threshold = {self.threshold:g}: it must be at least 0 and finite", "threshold")
        check_index_bits(self.index_bits)

    def error_bound(self, num_elems: int) -> float:
        """|C(x) - x|^2 at most: d lambda^2."""
        return num_elems * self.threshold**2

    def size_B(self, num_elems: int, value_B: int = 4) -> None:
        """Depends on the vector."""
        return None

    @ieee
    def compress(
        self, vector: Array, state: State, generator: Generator, agreed: Array | None = None
    ) -> tuple[Payload, State]:
        """Values and indices."""
        entries = flat(vector)
        # Said this way, a NaN travels too.
        kept = nonzero(~(namespace(entries).abs(entries) < self.threshold))
        return sparse(entries, kept, self.index_bits), state

    @ieee
    def decompress(self, payload: Payload) -> Array:
        """Zeros where nothing was sent."""
        values, indices = payload.arrays
        return scattered(values, indices, payload.num_elems)
