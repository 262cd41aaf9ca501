"""Stochastic gradient descent.

    direction = g + weight_decay * w
The step that minimises g'u + |u|_2^2 / alpha is -(alpha / 2) g: gradient descent is the Euclidean norm's own step.

Source: Robbins and Monro, "A stochastic approximation method", 1951.
"""

from __future__ import annotations

from typing import ClassVar

from lockstep.base.records import dataclass
from lockstep.learn.methods.arrays import ieee
from lockstep.learn.methods.optimizers.optimizer import Layers, State, check_decay


@dataclass(frozen=True, slots=True)
class Sgd:
    """Plain gradient descent."""

    name: ClassVar[str] = "sgd"
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        check_decay(self.weight_decay)

    def start(self, parameters: Layers) -> State:
        """No state."""
        return ()

    @ieee
    def direction(self, gradients: Layers, state: State, parameters: Layers) -> tuple[Layers, State]:
        """(gradients, no state)."""
        return decayed(gradients, parameters, self.weight_decay), state


def decayed(gradients: Layers, parameters: Layers, weight_decay: float) -> Layers:
    """g + weight_decay * w per layer."""
    if not weight_decay:
        return tuple(gradients)
    return tuple(g + weight_decay * w for g, w in zip(gradients, parameters, strict=True))
