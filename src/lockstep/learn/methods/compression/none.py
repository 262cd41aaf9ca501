"""No compression: the vector itself, the baseline of every comparison."""

from __future__ import annotations

from typing import ClassVar

from numpy.random import Generator

from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json
from lockstep.learn.methods.arrays import Array, flat, ieee
from lockstep.learn.methods.compression.compressor import Compressor, Payload, State


@dataclass(frozen=True, slots=True)
class NoCompression(Compressor):
    """Everything travels."""

    name: ClassVar[str] = "none"
    source: ClassVar[str] = "-"
    summable: ClassVar[bool] = True
    neutral: ClassVar[Json | None] = {}

    @property
    def unbiased(self) -> bool:
        """Yes."""
        return True

    def variance_factor(self, num_elems: int) -> float:
        """0."""
        return 0.0

    def size_B(self, num_elems: int, value_B: int = 4) -> float:
        """value_B d."""
        return value_B * num_elems

    @ieee
    def compress(
        self, vector: Array, state: State, generator: Generator, agreed: Array | None = None
    ) -> tuple[Payload, State]:
        """The entries."""
        entries = flat(vector)
        return Payload((entries,), len(entries)), state

    @ieee
    def decompress(self, payload: Payload) -> Array:
        """The entries."""
        return payload.arrays[0]
