"""What an optimiser is: a direction for every layer, and the state it keeps between steps.

    parameters <- parameters - learning rate * direction(gradients, state, parameters)
The learning rate stays outside, so any schedule works and a state never holds a rate. An optimiser has no state of its
own: the state is a plain tuple that the caller keeps, copies or sends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

from lockstep.base.errors import BadInput
from lockstep.learn.methods.arrays import Array, ieee, namespace, norm

Layers = Sequence[Array]
"""One array per layer."""
State = Any


class Optimizer(Protocol):
    """One way to turn gradients into directions."""

    name: ClassVar[str]

    def start(self, parameters: Layers) -> State:
        """The state before the first step."""
        ...

    def direction(self, gradients: Layers, state: State, parameters: Layers) -> tuple[Layers, State]:
        """(what the learning rate multiplies, one array per layer; the next state)."""
        ...


@ieee
def step(
    optimizer: Optimizer, parameters: Layers, gradients: Layers, state: State, learning_rate: float
) -> tuple[Layers, State]:
    """(parameters, state) after one step. Nothing is changed in place."""
    directions, state = optimizer.direction(gradients, state, parameters)
    moved = tuple(
        parameter - learning_rate * direction for parameter, direction in zip(parameters, directions, strict=True)
    )
    return moved, state


def zeros(parameters: Layers) -> Layers:
    """One array of zeros per layer."""
    return tuple(namespace(parameter).zeros_like(parameter) for parameter in parameters)


def check_frac(value: float, name: str) -> None:
    """Raises `BadInput` unless 0 <= value < 1."""
    if not 0 <= value < 1:
        raise BadInput(f"{name} must be at least 0 and below 1, got {value:g}", name)


def check_positive(value: float, name: str) -> None:
    """Raises `BadInput` unless the value is positive and finite."""
    if not 0 < value < float("inf"):
        raise BadInput(f"{name} must be positive and finite, got {value:g}", name)


def check_decay(value: float) -> None:
    """Raises `BadInput` unless the weight decay is at least 0 and finite."""
    if not 0 <= value < float("inf"):
        raise BadInput(f"weight_decay must be at least 0 and finite, got {value:g}", "weight_decay")


def trust_ratio(weight: Array, length: Array) -> Array:
    """The trust ratio [] of LARS and LAMB, |w| / length, of `weight` [...]; 1 where either is 0, to leave zero."""
    library, weight_norm = namespace(weight), norm(weight)
    usable = (weight_norm > 0) & (length > 0)
    one = library.ones_like(weight_norm)
    return library.where(usable, weight_norm / library.where(usable, length, one), one)
