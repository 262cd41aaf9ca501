"""A norm of norms: blocks (layers, rows, experts) measured one by one, and the lengths measured together.

    |u| = outer(inner_1(u_1), ..., inner_k(u_k))
    |g|_* = outer_*(inner_1*(g_1), ..., inner_k*(g_k))
    v_b = w_b v_b'      w = outer's steepest for the vector of inner dual norms, v_b' = inner's steepest for g_b
With the maximum outside every block moves equally far, whatever its gradient (layer-wise methods, Muon on a network);
with the Euclidean norm outside and inside it is the Euclidean norm of everything.

Source: Bernstein and Newhouse, "Modular duality in deep learning", 2024, for outer = maximum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from lockstep.errors import BadInput
from lockstep.methods.arrays import Array, ieee, namespace
from lockstep.methods.norms.norm import Norm


@dataclass(frozen=True, slots=True)
class Blocks:
    """`outer` over the lengths that the norms in `inner` give, one per block."""

    name: ClassVar[str] = "blocks"
    outer: Norm
    inner: tuple[Norm, ...]

    @ieee
    def length(self, update: Sequence[Array]) -> Array:
        """|u| of a sequence of blocks."""
        return self.outer.length(_stacked([norm.length(u) for norm, u in self._pairs(update)]))

    @ieee
    def dual(self, gradient: Sequence[Array]) -> Array:
        """|g|_* of a sequence of blocks."""
        return self.outer.dual(self._duals(gradient))

    @ieee
    def steepest(self, gradient: Sequence[Array]) -> tuple[Array, ...]:
        """One array per block."""
        weights = self.outer.steepest(self._duals(gradient))
        return tuple(
            weight * norm.steepest(g) for weight, (norm, g) in zip(weights, self._pairs(gradient), strict=True)
        )

    @ieee
    def step(self, gradient: Sequence[Array], alpha: float) -> tuple[Array, ...]:
        """The blocks that minimise g'u + |u|^2 / alpha together."""
        scale = -(alpha / 2) * self.dual(gradient)
        return tuple(scale * v for v in self.steepest(gradient))

    def _duals(self, gradient: Sequence[Array]) -> Array:
        return _stacked([norm.dual(g) for norm, g in self._pairs(gradient)])

    def _pairs(self, blocks: Sequence[Array]) -> list[tuple[Norm, Array]]:
        if len(blocks) != len(self.inner):
            raise BadInput(f"{len(blocks)} blocks for {len(self.inner)} norms; give one norm per block")
        return list(zip(self.inner, blocks, strict=True))


def _stacked(lengths: list[Array]) -> Array:
    return namespace(lengths[0]).stack(lengths)
