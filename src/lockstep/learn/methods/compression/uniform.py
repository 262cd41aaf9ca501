"""Uniform quantisation between plus and minus the largest magnitude: int8, and 4 or 2 bits.

    C(x)_i = round(x_i s / m) m / s,   m = max |x_i|,   s = 2^(bits - 1) - 1 levels
    stochastic rounding: unbiased, omega <= (sqrt(1 + (d - 1) / s^2) - 1) / 2, reached by some vector
    nearest: biased, |C(x) - x|^2 <= (d - 1) (m / 2s)^2, and contractive with
        q = 1 - (d - 1) / (4 s^2 + d - 1)                    reached where all entries but the largest are m / 2s
    payload = bits d / 8 bytes and one scale
How much it loses is a property of the vector, not of the bits: for a Gaussian one omega is about (m / s)^2 / 6, which
is 2.6e-4 with 8 bits, 0.09 with 4 and 3.0 with 2 at d = 10^6. Codes of different ranks have different scales: no
sums.

The extremes: with one entry m, the others at m f / s cost (d - 1) f (1 - f) / (s^2 + (d - 1) f^2), largest at
f = (sqrt(1 + (d - 1) / s^2) - 1) s^2 / (d - 1); for nearest f^2 instead of f (1 - f), at f = 1/2.

Sources: Alistarh et al., "QSGD", NeurIPS 2017, section 4 (scaling by the maximum); Dettmers, "8-bit approximations for
parallelism in deep learning", ICLR 2016. The bounds are our own, by the argument above.
"""

from __future__ import annotations

import math
from typing import ClassVar

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.settings import setting
from lockstep.learn.methods.arrays import Array, namespace
from lockstep.learn.methods.compression.compressor import Compressor
from lockstep.learn.methods.compression.grid import Quantizer, check_rounding


@dataclass(frozen=True, slots=True)
class Uniform(Quantizer):
    """Equal steps up to the largest magnitude."""

    name: ClassVar[str] = "int8"
    summary: ClassVar[str] = "integers of few bits and a scale"
    source: ClassVar[str] = "Dettmers 2016; Alistarh et al. 2017"
    bits: int = setting(8, "Bits of an entry.")
    rounding: str = setting("stochastic", "stochastic or nearest.")

    def __post_init__(self) -> None:
        if self.bits not in (2, 4, 8):
            raise BadInput(f"bits = {self.bits}: 2, 4 or 8; one bit is the compressor one-bit", "bits")
        check_rounding(self.rounding)

    @property
    def levels(self) -> int:
        """s: steps from 0 to the largest magnitude."""
        return int(2 ** (self.bits - 1) - 1)

    @property
    def unbiased(self) -> bool:
        """With stochastic rounding."""
        return self.rounding == "stochastic"

    def variance_factor(self, num_elems: int) -> float | None:
        """Largest over all vectors: (sqrt(1 + (d - 1) / s^2) - 1) / 2."""
        return (math.sqrt(1 + (num_elems - 1) / self.levels**2) - 1) / 2 if self.unbiased else None

    def contraction_frac(self, num_elems: int) -> float | None:
        """4 s^2 / (4 s^2 + d - 1) for nearest; 1 - omega for stochastic, where that is positive."""
        if not self.unbiased:
            return 4 * self.levels**2 / (4 * self.levels**2 + num_elems - 1)
        return Compressor.contraction_frac(self, num_elems)

    def reach(self, entries: Array) -> Array:
        """The largest magnitude."""
        return namespace(entries).abs(entries).max()
