"""What a norm gives an optimiser: the step that pays for its own length.

    u = argmin  g'u + |u|^2 / alpha  =  -(alpha / 2) |g|_* v          value = -(alpha / 4) |g|_*^2
|g|_*: dual norm, the largest g'v over |v| <= 1; v: a unit vector that attains it (the steepest one). Proof: along any
unit vector the best length is alpha / 2 times g'v, and the best value -(alpha / 4) (g'v)^2. So an optimiser is a choice
of norm, and its step shrinks with the dual norm of the gradient, which plain sign descent and Muon leave out.

Sources: Boyd and Vandenberghe, "Convex optimization", 2004, section 9.4; Bernstein and Newhouse, "Old optimizer, new
norm", 2024.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar, Protocol

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.learn.methods.arrays import Array, ieee, like, namespace, norm, wide


class Norm(Protocol):
    """A way to measure how long a step is."""

    name: ClassVar[str]

    def length(self, update: Array) -> Array:
        """|u| [] of `update` [...]."""
        ...

    def dual(self, gradient: Array) -> Array:
        """|g|_* [] of `gradient` [...], the largest g'v over all |v| <= 1."""
        ...

    def steepest(self, gradient: Array) -> Array:
        """A v [...] with |v| = 1 and g'v = |g|_* of `gradient` [...]; zeros for a gradient of zeros."""
        ...


@ieee
def steepest_step(norm: Norm, gradient: Array, alpha: float) -> Array:
    """The u [...] that minimizes g'u + |u|^2 / alpha, for a `gradient` [...]."""
    if not 0 < alpha < float("inf"):
        raise BadInput(f"alpha must be positive and finite, got {alpha:g}", "alpha")
    return -(alpha / 2) * norm.dual(gradient) * norm.steepest(gradient)


@ieee
def least_value(norm: Norm, gradient: Array, alpha: float) -> float:
    """The least g'u + |u|^2 / alpha, -(alpha / 4) |g|_*^2, for a `gradient` [...]."""
    return float(-(alpha / 4) * norm.dual(gradient) ** 2)


@dataclass(frozen=True, slots=True)
class Absolute:
    """The sum of absolute values: its step is greedy coordinate descent.

        |u|_1 = sum |u_i|      |g|_* = |g|_inf      v = sign(g_j) e_j,  j = argmax |g_i|      u = -(alpha / 2) |g|_inf v
    Only the steepest coordinate moves; of equal ones the first (any mix of them would do as well).

    Source: Nutini et al., "Coordinate descent converges faster with the Gauss-Southwell rule than random selection",
    2015.
    """

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


@dataclass(frozen=True, slots=True)
class Euclidean:
    """The Euclidean norm: its step is gradient descent with rate alpha / 2.

        |u|_2 = sqrt(sum u_i^2)      |g|_* = |g|_2      v = g / |g|_2      u = -(alpha / 2) g
    Of a matrix it is the Frobenius norm.
    """

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


@dataclass(frozen=True, slots=True)
class Maximum:
    """The maximum norm: its step is sign descent, as long as the sum of the absolute gradient.

        |u|_inf = max |u_i|      |g|_* = |g|_1      v = sign(g)      u = -(alpha / 2) |g|_1 sign(g)
    Not signSGD, whose step does not shrink with the gradient.
    """

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


@dataclass(frozen=True, slots=True)
class Power:
    """The p-norm for 1 < p < infinity: every coordinate moves, the steep ones more the nearer p is to 1.

        |u|_p = (sum |u_i|^p)^(1/p)      |g|_* = |g|_q,  1/p + 1/q = 1
        v_i = sign(g_i) (|g_i| / |g|_q)^(q - 1)
        u_i = -(alpha / 2) |g|_q^(2 - q) |g_i|^(q - 1) sign(g_i)
    p = 2 is gradient descent, p -> infinity sign descent, p -> 1 greedy coordinate descent.
    """

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


@dataclass(frozen=True, slots=True)
class Spectral:
    """The spectral norm of a matrix: its step has the gradient's directions, all of them equally long.

        |U|_inf = largest singular value      |G|_* = sum of singular values (nuclear norm)
        G = P S Q'      V = P Q'      U = -(alpha / 2) (sum S) P Q'
    Muon's direction is P Q' by an iteration, without the nuclear norm before it. Singular values at the rounding of the
    largest count as zero, so the step of a matrix of low rank has that rank.

    Source: Carlson, Cevher, Carin, "Stochastic spectral descent for restricted Boltzmann machines", 2015.
    """

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


@dataclass(frozen=True, slots=True)
class Blocks:
    """A norm of norms: blocks (layers, rows, experts) measured one by one, and the lengths measured together.

        |u| = outer(inner_1(u_1), ..., inner_k(u_k))
        |g|_* = outer_*(inner_1*(g_1), ..., inner_k*(g_k))
        v_b = w_b v_b'      w = outer's steepest for the vector of inner dual norms, v_b' = inner's steepest for g_b
    With the maximum outside every block moves equally far, whatever its gradient (layer-wise methods, Muon on a
    network); with the Euclidean norm outside and inside it is the Euclidean norm of everything.

    Source: Bernstein and Newhouse, "Modular duality in deep learning", 2024, for outer = maximum.
    """

    name: ClassVar[str] = "blocks"
    outer: Norm
    inner: tuple[Norm, ...]

    @ieee
    def length(self, update: Sequence[Array]) -> Array:
        """|u| [] of a sequence of blocks [...]."""
        return self.outer.length(_stacked([norm.length(u) for norm, u in self._pairs(update)]))

    @ieee
    def dual(self, gradient: Sequence[Array]) -> Array:
        """|g|_* [] of a sequence of blocks [...]."""
        return self.outer.dual(self._duals(gradient))

    @ieee
    def steepest(self, gradient: Sequence[Array]) -> tuple[Array, ...]:
        """One array [...] per block."""
        weights = self.outer.steepest(self._duals(gradient))
        return tuple(
            weight * norm.steepest(g) for weight, (norm, g) in zip(weights, self._pairs(gradient), strict=True)
        )

    @ieee
    def step(self, gradient: Sequence[Array], alpha: float) -> tuple[Array, ...]:
        """The blocks [...] that minimize g'u + |u|^2 / alpha together."""
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
