"""Muon: momentum whose matrices are made orthogonal, the step of the spectral norm.

    m <- beta m + g                                          n = g + beta m (Nesterov) or m
    direction = 0.2 sqrt(max(rows, columns)) U V'            for matrices, n = U S V'
    direction = `others`' own                                for everything else
U V' comes from five Newton-Schulz iterations, X <- a X + (b A + c A A) X with A = X X', which push every singular value
into about [0.7, 1.2] instead of exactly to 1. The factor 0.2 sqrt(max) gives entries the size of Adam's, so one rate
serves both.

Sources: Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024 (iteration and coefficients);
Liu et al., "Muon is scalable for LLM training", 2025, equation 4 (factor).
"""

from __future__ import annotations

from math import sqrt
from typing import ClassVar

from lockstep.base.records import dataclass, field
from lockstep.learn.methods.arrays import Array, ieee, norm
from lockstep.learn.methods.optimizers.adam import Adam
from lockstep.learn.methods.optimizers.momentum import Momentum
from lockstep.learn.methods.optimizers.optimizer import Layers, Optimizer, State

COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # Jordan et al. 2024: the steepest rise at 0 that stays near 1
ITERATIONS = 5  # Jordan et al. 2024
ADAM_SIZE = 0.2  # Liu et al. 2025: root mean square of Adam's entries, measured by them
TINY = 1e-7  # Jordan et al. 2024: a gradient of zeros stays zero


def orthogonalized(matrix: Array, iterations: int = ITERATIONS) -> Array:
    """Approximately U V' [rows, columns] of `matrix` [rows, columns] = U S V', in its precision."""
    a, b, c = COEFFICIENTS
    tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.T if tall else matrix
    x = x / (norm(x) + TINY)
    for _ in range(iterations):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if tall else x


@dataclass(frozen=True, slots=True)
class Muon:
    """State: (momentum of the matrices, state of the others)."""

    name: ClassVar[str] = "muon"
    momentum: Momentum = field(default_factory=lambda: Momentum(beta=0.95, nesterov=True))
    others: Optimizer = field(default_factory=Adam)
    """For vectors, scalars and kernels of more than two dimensions."""

    def start(self, parameters: Layers) -> State:
        """Both states."""
        matrices, rest = _split(parameters, parameters)
        return self.momentum.start(matrices), self.others.start(rest)

    @ieee
    def direction(self, gradients: Layers, state: State, parameters: Layers) -> tuple[Layers, State]:
        """(orthogonal matrices and the others' directions, both states)."""
        matrices, rest = _split(parameters, parameters)
        steep, plain = _split(gradients, parameters)
        pushed, moving = self.momentum.direction(steep, state[0], matrices)
        moved, kept = self.others.direction(plain, state[1], rest)
        turned = iter(ADAM_SIZE * sqrt(max(one.shape)) * orthogonalized(one) for one in pushed)
        other = iter(moved)
        return tuple(next(turned) if w.ndim == 2 else next(other) for w in parameters), (moving, kept)


def _split(layers: Layers, parameters: Layers) -> tuple[Layers, Layers]:
    """(layers whose parameter is a matrix, all others)."""
    pairs = list(zip(layers, parameters, strict=True))
    return tuple(one for one, w in pairs if w.ndim == 2), tuple(one for one, w in pairs if w.ndim != 2)
