"""The p-norm for 1 < p < infinity: every coordinate moves, the steep ones more the nearer p is to 1.

    |u|_p = (sum |u_i|^p)^(1/p)      |g|_* = |g|_q,  1/p + 1/q = 1
    v_i = sign(g_i) (|g_i| / |g|_q)^(q - 1)
    u_i = -(alpha / 2) |g|_q^(2 - q) |g_i|^(q - 1) sign(g_i)
p = 2 is gradient descent, p -> infinity sign descent, p -> 1 greedy coordinate descent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lockstep.errors import BadInput
from lockstep.methods.arrays import Array, ieee, namespace


@dataclass(frozen=True, slots=True)
class Power:
    """The p-norm; `Absolute` and `Maximum` are its two ends."""

    name: ClassVar[str] = "lp"
    p: float = 3.0

    def __post_init__(self) -> None:
        if not 1 < self.p < float("inf"):
            raise BadInput(f"p must be above 1 and finite, got {self.p:g}; l1 and linf are the ends", "p")

    @property
    def q(self) -> float:
        """Exponent of the dual norm, p / (p - 1)."""
        return self.p / (self.p - 1)

    @ieee
    def length(self, update: Array) -> Array:
        """The p-norm."""
        return _norm(update, self.p)

    @ieee
    def dual(self, gradient: Array) -> Array:
        """The q-norm."""
        return _norm(gradient, self.q)

    @ieee
    def steepest(self, gradient: Array) -> Array:
        """Signs times powers of the share of each entry."""
        library, length = namespace(gradient), self.dual(gradient)
        shares = library.abs(gradient) / library.where(length > 0, length, length + 1)
        return library.sign(gradient) * shares ** (self.q - 1)


def _norm(array: Array, power: float) -> Array:
    """The p-norm, scaled by the largest entry so that no power overflows or vanishes."""
    library = namespace(array)
    largest = library.abs(array).max()
    scale = library.where(largest > 0, largest, largest + 1)
    return scale * ((library.abs(array) / scale) ** power).sum() ** (1 / power)
