"""What a norm gives an optimiser: the step that pays for its own length.

    u = argmin  g'u + |u|^2 / alpha  =  -(alpha / 2) |g|_* v          value = -(alpha / 4) |g|_*^2
|g|_*: dual norm, the largest g'v over |v| <= 1; v: a unit vector that attains it (the steepest one). Proof: along any
unit vector the best length is alpha / 2 times g'v, and the best value -(alpha / 4) (g'v)^2. So an optimiser is a choice
of norm, and its step shrinks with the dual norm of the gradient, which plain sign descent and Muon leave out.

Sources: Boyd and Vandenberghe, "Convex optimization", 2004, section 9.4; Bernstein and Newhouse, "Old optimizer, new
norm", 2024.
"""

from __future__ import annotations

from typing import ClassVar, Protocol

from lockstep.errors import BadInput
from lockstep.methods.arrays import Array, ieee


class Norm(Protocol):
    """A way to measure how long a step is."""

    name: ClassVar[str]

    def length(self, update: Array) -> Array:
        """|u|."""
        ...

    def dual(self, gradient: Array) -> Array:
        """|g|_*, the largest g'v over all |v| <= 1."""
        ...

    def steepest(self, gradient: Array) -> Array:
        """A v with |v| = 1 and g'v = |g|_*; zeros for a gradient of zeros."""
        ...


@ieee
def steepest_step(norm: Norm, gradient: Array, alpha: float) -> Array:
    """The u that minimises g'u + |u|^2 / alpha, of the shape of `gradient`."""
    if not 0 < alpha < float("inf"):
        raise BadInput(f"alpha must be positive and finite, got {alpha:g}", "alpha")
    return -(alpha / 2) * norm.dual(gradient) * norm.steepest(gradient)


@ieee
def least_value(norm: Norm, gradient: Array, alpha: float) -> float:
    """The least g'u + |u|^2 / alpha, -(alpha / 4) |g|_*^2."""
    return float(-(alpha / 4) * norm.dual(gradient) ** 2)
