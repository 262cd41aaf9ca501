"""The spectral norm of a matrix: its step has the gradient's directions, all of them equally long.

    |U|_inf = largest singular value      |G|_* = sum of singular values (nuclear norm)
    G = P S Q'      V = P Q'      U = -(alpha / 2) (sum S) P Q'
Muon's direction is P Q' by an iteration, without the nuclear norm before it. Singular values at the rounding of the
largest count as zero, so the step of a matrix of low rank has that rank.

Source: Carlson, Cevher, Carin, "Stochastic spectral descent for restricted Boltzmann machines", 2015.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from lockstep.errors import BadInput
from lockstep.methods.arrays import Array, ieee, like, namespace, wide


@dataclass(frozen=True, slots=True)
class Spectral:
    """The largest singular value of a matrix."""

    name: ClassVar[str] = "spectral"

    @ieee
    def length(self, update: Array) -> Array:
        """Largest singular value."""
        return _decomposed(update)[1].max()

    @ieee
    def dual(self, gradient: Array) -> Array:
        """Sum of the singular values."""
        return _decomposed(gradient)[1].sum()

    @ieee
    def steepest(self, gradient: Array) -> Array:
        """The orthogonal factor of the polar decomposition, on the row space of the gradient."""
        left, values, right = _decomposed(gradient)
        library = namespace(gradient)
        floor = values.max() * max(gradient.shape) * library.finfo(values.dtype).eps
        return (left * (values > floor)) @ right


def _decomposed(matrix: Array) -> tuple[Array, Array, Array]:
    if matrix.ndim != 2:
        raise BadInput(f"the spectral norm is of matrices, got {matrix.ndim} dimensions")
    given = wide(matrix)
    library = namespace(given)
    finite = bool(library.isfinite(given).all())
    # The decomposition of anything else is an error or does not end, depending on the library.
    parts = library.linalg.svd(given if finite else library.zeros_like(given), full_matrices=False)
    left, values, right = (like(part, matrix) for part in parts)
    return (left, values, right) if finite else (left * math.nan, values * math.nan, right * math.nan)
