"""Number formats and rounding to them, exact to the bit: fp32, tf32, fp16, bf16 and both fp8.

    value = significand * 2^exponent, p bits of significand, exponents from e_min to e_max, subnormals below 2^e_min
    unit roundoff u = 2^-p;  smallest normal 2^e_min;  smallest subnormal 2^(e_min - p + 1)
    fl(x) = nearest value, ties to the even significand: |fl(x) - x| <= u |x| for normal values
    half of the smallest subnormal and less becomes zero; the largest plus half of the last step and more overflows
Values are held in float64, in which sums and products of two of them are exact or round harmlessly, so that
`rounded(a + b)` is the sum that hardware of that format gives.

Sources: IEEE 754-2019 (fp32, fp16); Micikevicius et al., "FP8 formats for deep learning", 2022 (e4m3 has no infinity
and overflows to not-a-number); Google and NVIDIA documents of bf16 (8 exponent bits) and tf32 (8 and 10 bits).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from numpy.random import Generator

from lockstep.base.errors import UnknownName
from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Array, Floats
from lockstep.learn.methods.arrays import ieee


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """A binary format with subnormals."""

    name: str
    precision_bits: int
    """p: of the significand, the hidden one included."""
    least_exponent: int
    """e_min: of the smallest normal number, 1.0 * 2^e_min."""
    largest: float
    size_B: float
    infinite: bool = True
    """Whether it has infinities; without, overflow is not a number."""

    @property
    def unit_roundoff(self) -> float:
        """u: largest relative error of rounding a normal value."""
        return 2.0**-self.precision_bits

    @property
    def least_normal(self) -> float:
        """Smallest normal number."""
        return 2.0**self.least_exponent

    @property
    def least_subnormal(self) -> float:
        """Smallest number above 0."""
        return 2.0 ** (self.least_exponent - self.precision_bits + 1)

    @property
    def overflows_from(self) -> float:
        """Smallest magnitude that rounds past the largest number."""
        last_step = 2.0 ** (np.frexp(self.largest)[1] - self.precision_bits)
        odd = (self.largest / last_step) % 2 == 1
        return float(self.largest + last_step / 2 if odd else np.nextafter(self.largest + last_step / 2, np.inf))

    @ieee
    def spacing(self, values: npt.ArrayLike) -> Array:
        """Distance [...] of neighbouring numbers at the magnitude of `values` [...]; NaN where they are not finite."""
        given = np.asarray(values, dtype=np.float64)
        finite = np.isfinite(given)
        # C leaves the exponent of an infinity and of a NaN open.
        exponent = np.maximum(np.frexp(np.where(finite, given, 0.0))[1], self.least_exponent + 1)
        return np.where(finite, np.ldexp(1.0, exponent - self.precision_bits), np.nan)

    @ieee
    def rounded(self, values: npt.ArrayLike, generator: Generator | None = None) -> Array:
        """What this format stores for `values` [...], as float64 [...]: the nearest, or at random with a generator.

        Stochastic rounding takes a neighbour with the probability of its closeness, which makes it unbiased.
        """
        given = np.asarray(values, dtype=np.float64)
        step = self.spacing(given)
        places = given / step
        whole = np.rint(places) if generator is None else np.floor(places + generator.random(given.shape))
        stored = np.where(np.isfinite(given), whole * step, given)
        past = np.copysign(np.inf, stored) if self.infinite else np.nan
        return np.where(np.abs(stored) > self.largest, past, stored)


FORMATS: dict[str, NumberFormat] = {
    one.name: one
    for one in (
        NumberFormat("fp32", 24, -126, float(np.finfo(np.float32).max), 4),
        NumberFormat("tf32", 11, -126, (2 - 2.0**-10) * 2.0**127, 4),
        NumberFormat("bf16", 8, -126, (2 - 2.0**-7) * 2.0**127, 2),
        NumberFormat("fp16", 11, -14, 65504.0, 2),
        NumberFormat("fp8-e5m2", 3, -14, 57344.0, 1),
        NumberFormat("fp8-e4m3", 4, -6, 448.0, 1, infinite=False),
    )
}


def number_format(name: str, where: str = "format") -> NumberFormat:
    """The format of that name. Raises `UnknownName`."""
    if name not in FORMATS:
        raise UnknownName("number format", name, FORMATS, where)
    return FORMATS[name]


def rounded_sum(name: str) -> Callable[[Floats, Floats], Floats]:
    """A function of two arrays [...] that adds as hardware of that format does, for values held in float64."""
    chosen = number_format(name)

    @ieee
    def add(first: Array, second: Array) -> Array:
        return chosen.rounded(first + second)

    return add
