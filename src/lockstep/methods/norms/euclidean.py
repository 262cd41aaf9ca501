"""The Euclidean norm: its step is gradient descent with rate alpha / 2.

    |u|_2 = sqrt(sum u_i^2)      |g|_* = |g|_2      v = g / |g|_2      u = -(alpha / 2) g
Of a matrix it is the Frobenius norm.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lockstep.methods.arrays import Array, ieee, namespace, norm


@dataclass(frozen=True, slots=True)
class Euclidean:
    """Gradient descent."""

    name: ClassVar[str] = "l2"

    @ieee
    def length(self, update: Array) -> Array:
        """Root of the sum of squares."""
        return norm(update)

    @ieee
    def dual(self, gradient: Array) -> Array:
        """Its own."""
        return norm(gradient)

    @ieee
    def steepest(self, gradient: Array) -> Array:
        """Along the gradient."""
        length = norm(gradient)
        return gradient / namespace(gradient).where(length > 0, length, length + 1)
