"""Signs alone: one bit per entry, and no length.

    C(x)_i = +1 if x_i >= 0 else -1                          payload = d / 8 bytes
Not a contraction: the error is unbounded relative to x, a small vector comes back longer than it was. SGD with it
minimises something else unless its noise is symmetric; Karimireddy et al. give the counterexample that fails.

Sources: Bernstein et al., "signSGD", ICML 2018; Karimireddy et al., "Error feedback fixes SignSGD", ICML 2019.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from numpy.random import Generator

from lockstep.base.records import dataclass
from lockstep.learn.methods.arrays import Array, cast, flat, ieee
from lockstep.learn.methods.compression.compressor import Compressor, Payload, State
from lockstep.learn.methods.compression.grid import pack, packed_B, unpack


@dataclass(frozen=True, slots=True)
class Sign(Compressor):
    """One bit per entry."""

    name: ClassVar[str] = "sign"
    summary: ClassVar[str] = "one bit per entry, no length: needs a small learning rate"
    source: ClassVar[str] = "Bernstein et al. 2018"
    with_feedback: ClassVar[Mapping[str, Any] | None] = None

    def size_B(self, num_elems: int, value_B: int = 4) -> float:
        """d / 8."""
        return packed_B(num_elems, 1)

    @ieee
    def compress(
        self, vector: Array, state: State, generator: Generator, agreed: Array | None = None
    ) -> tuple[Payload, State]:
        """One bit per entry; a zero counts as positive."""
        entries = flat(vector)
        return Payload((pack(entries >= 0, 1),), len(entries)), state

    @ieee
    def decompress(self, payload: Payload) -> Array:
        """Plus and minus one."""
        return signs(payload)


def signs(payload: Payload) -> Array:
    """The packed signs as numbers of 32 bits: [elems]."""
    return cast(2 * unpack(payload.arrays[0], 1, payload.num_elems) - 1, "float32")
