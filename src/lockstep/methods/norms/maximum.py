"""The maximum norm: its step is sign descent, as long as the sum of the absolute gradient.

    |u|_inf = max |u_i|      |g|_* = |g|_1      v = sign(g)      u = -(alpha / 2) |g|_1 sign(g)
Not signSGD, whose step does not shrink with the gradient.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lockstep.methods.arrays import Array, ieee, namespace


@dataclass(frozen=True, slots=True)
class Maximum:
    """Sign descent with a scale of |g|_1."""

    name: ClassVar[str] = "linf"

    @ieee
    def length(self, update: Array) -> Array:
        """Largest absolute entry."""
        return namespace(update).abs(update).max()

    @ieee
    def dual(self, gradient: Array) -> Array:
        """Sum of absolute entries."""
        return namespace(gradient).abs(gradient).sum()

    @ieee
    def steepest(self, gradient: Array) -> Array:
        """The signs."""
        return namespace(gradient).sign(gradient)
