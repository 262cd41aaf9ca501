"""QSGD: stochastic rounding to s levels of the Euclidean norm.

    C(x)_i = |x|_2 sign(x_i) xi_i / s,   xi_i = stochastic rounding of s |x_i| / |x|_2
    omega <= min(d / s^2, sqrt(d) / s);   for s <= sqrt(d) equal magnitudes give sqrt(d) / s - 1 exactly
    payload = 2, 4 or 8 bits per entry (the smallest that hold -s ... s) and one norm
The fixed-width code here is the simple one. The paper's Elias code has expected length of order s (s + sqrt d) log d
bits.

Source: Alistarh, Grubic, Li, Tomioka, Vojnovic, "QSGD: communication-efficient SGD via gradient quantization and
encoding", NeurIPS 2017, definition 3.1 and lemma 3.1.
"""

from __future__ import annotations

import math
from typing import ClassVar

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.settings import setting
from lockstep.learn.methods.arrays import Array, norm
from lockstep.learn.methods.compression.grid import Quantizer


@dataclass(frozen=True, slots=True)
class Qsgd(Quantizer):
    """Random rounding on a grid as long as the vector."""

    name: ClassVar[str] = "qsgd"
    summary: ClassVar[str] = "random rounding to levels of the norm"
    source: ClassVar[str] = "Alistarh et al. 2017"
    levels: int = setting(127, "Levels of magnitude.")
    """s: steps from 0 to the norm."""

    def __post_init__(self) -> None:
        if not 1 <= self.levels <= 127:
            raise BadInput(f"levels = {self.levels}: from 1 to 127, so that a code fits in 8 bits", "levels")

    @property
    def bits(self) -> int:
        """Bits of a code."""
        return 2 if self.levels == 1 else 4 if self.levels <= 7 else 8

    @property
    def unbiased(self) -> bool:
        """Yes."""
        return True

    def variance_factor(self, num_elems: int) -> float:
        """min(d / s^2, sqrt(d) / s)."""
        return min(num_elems / self.levels**2, math.sqrt(num_elems) / self.levels)

    def reach(self, entries: Array) -> Array:
        """The length of the vector."""
        return norm(entries)
