"""`PowerLimit`: how far a device lowers its clock while it works on several kinds of kernels in turn.

A device at its power limit P runs at a fraction f of its full clock. A kind of kernels with its arithmetic on chip then
takes t / f for t at the full clock and draws w f^2; kernels that move memory take as long and draw v whatever the
clock. Over a pass with t_i seconds of each kind at the full clock and u seconds of memory, energy is P times time:

    f^2 sum(w_i t_i) + f u (v - P) - P sum(t_i) = 0        and f = 1 where that is above 1

Alone, products run at sqrt(P / w). Rates of kernels that were measured alone are at that clock (attention: the full
one); inside a step all kinds share one, so that products are faster than alone and attention is slower. The clock is
taken to follow the mean over a layer's passes.

Source of the constants: layers of six models on one H100 of 700 W (`tools/fit/power.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from lockstep.base.records import dataclass, field, replace
from lockstep.base.types.arrays import Number
from lockstep.base.types.plain import Json, picked


@dataclass(frozen=True, slots=True)
class PowerLimit:
    """What kernels draw at the full clock, in watts, and the limit."""

    limit_W: float
    products_W: Mapping[str, float] = field(hash=False)
    """Of matrix products, by number format."""
    attention_W: float
    memory_W: float
    paces: tuple[float, float, float] = (1.0, 1.0, 1.0)
    """Times as long as without them that products, attention and kernels that move memory take since steps told how
    slow they are: the clock is that which the kernels without them keep."""

    def slowed(self, products: float, attention: float, memory: float) -> PowerLimit:
        """The same limit where kernels take so many times as long inside of the same steps."""
        were = self.paces
        return replace(self, paces=(were[0] * products, were[1] * attention, were[2] * memory))

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self, without="paces")

    def alone_frac(self, dtype: str) -> float:
        """Clock over the full clock of a device that runs nothing but products in `dtype`; of other formats bf16's."""
        drawn_W = self.products_W.get(dtype, self.products_W["bf16"])
        return min(1.0, math.sqrt(self.limit_W / drawn_W))

    def factors(self, dtype: str, products_s: Number, attention_s: Number, memory_s: Number) -> tuple[Number, Number]:
        """Seconds of products and of attention inside a step over those alone, where a pass has so many of each kind.

        `products_s` as alone at the limit, `attention_s` at the full clock. Both factors are 1 where nothing computes.
        """
        alone = self.alone_frac(dtype)
        kinds = zip((products_s, attention_s, memory_s), self.paces, strict=True)
        products_s, attention_s, memory_s = (seconds / pace for seconds, pace in kinds)
        full_s = products_s * alone
        drawn_J = full_s * self.products_W.get(dtype, self.products_W["bf16"]) + attention_s * self.attention_W
        half_J = 0.5 * memory_s * (self.memory_W - self.limit_W)
        rest_J = self.limit_W * (full_s + attention_s)
        clock = (np.sqrt(half_J**2 + drawn_J * rest_J) - half_J) / np.where(drawn_J > 0, drawn_J, 1.0)
        clock = np.where(drawn_J > 0, np.minimum(1.0, clock), 1.0)
        return np.where(drawn_J > 0, alone / clock, 1.0), 1.0 / clock
