"""The sum of absolute values: its step is greedy coordinate descent.

    |u|_1 = sum |u_i|      |g|_* = |g|_inf      v = sign(g_j) e_j,  j = argmax |g_i|      u = -(alpha / 2) |g|_inf v
Only the steepest coordinate moves; of equal ones the first (any mix of them would do as well).

Source: Nutini et al., "Coordinate descent converges faster with the Gauss-Southwell rule than random selection", 2015.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lockstep.methods.arrays import Array, ieee, namespace


@dataclass(frozen=True, slots=True)
class Absolute:
    """Greedy coordinate descent."""

    name: ClassVar[str] = "l1"

    @ieee
    def length(self, update: Array) -> Array:
        """Sum of absolute entries."""
        return namespace(update).abs(update).sum()

    @ieee
    def dual(self, gradient: Array) -> Array:
        """Largest absolute entry."""
        return namespace(gradient).abs(gradient).max()

    @ieee
    def steepest(self, gradient: Array) -> Array:
        """The sign of the first largest entry at its place, zeros elsewhere."""
        library, flat = namespace(gradient), gradient.reshape(-1)
        place = int(library.abs(flat).argmax())
        moved = library.zeros_like(flat)
        moved[place] = library.sign(flat[place])
        return moved.reshape(gradient.shape)
