"""One bit with a scale: the sign of each entry times the mean magnitude.

    C(x) = (|x|_1 / d) sign(x)                               |C(x) - x|^2 = (1 - |x|_1^2 / (d |x|_2^2)) |x|^2
    q = 1 / d for every vector, |x|_1^2 / (d |x|_2^2) for this one: 2 / pi for a long Gaussian one
    payload = d / 8 bytes and one scale
Biased. The equation is exact, since the scale is the best one for these signs.

Source: Karimireddy, Rebjock, Stich, Jaggi, "Error feedback fixes SignSGD and other gradient compression schemes", ICML
2019, lemma 8; the idea with error feedback: Seide et al., "1-bit stochastic gradient descent", Interspeech 2014.
"""

from __future__ import annotations

from typing import ClassVar

from numpy.random import Generator

from lockstep.base.records import dataclass
from lockstep.learn.methods.arrays import Array, flat, ieee, like, namespace
from lockstep.learn.methods.compression.compressor import Compressor, Payload, State
from lockstep.learn.methods.compression.grid import pack, packed_B
from lockstep.learn.methods.compression.sign import signs


@dataclass(frozen=True, slots=True)
class OneBit(Compressor):
    """Signs and one scale."""

    name: ClassVar[str] = "one-bit"
    summary: ClassVar[str] = "one bit per entry and two means"
    source: ClassVar[str] = "Seide et al. 2014; Karimireddy et al. 2019"

    def contraction_frac(self, num_elems: int) -> float:
        """1 / d, reached by a vector with one entry; long dense vectors do far better."""
        return 1 / num_elems

    def size_B(self, num_elems: int, value_B: int = 4) -> float:
        """d / 8 and one scale."""
        return packed_B(num_elems, 1) + value_B

    @ieee
    def compress(
        self, vector: Array, state: State, generator: Generator, agreed: Array | None = None
    ) -> tuple[Payload, State]:
        """Packed signs and the mean magnitude."""
        entries = flat(vector)
        scale = namespace(entries).abs(entries).mean().reshape(1)
        return Payload((pack(entries >= 0, 1), scale), len(entries)), state

    @ieee
    def decompress(self, payload: Payload) -> Array:
        """Signs times scale."""
        scale = payload.arrays[1]
        return scale * like(signs(payload), scale)
