"""Adam and AdamW: a rate per coordinate from running moments of the gradient.

    m <- beta_1 m + (1 - beta_1) g           v <- beta_2 v + (1 - beta_2) g^2
    direction = (m / (1 - beta_1^t)) / (sqrt(v / (1 - beta_2^t)) + epsilon) + weight_decay * w
t counts from 1. Weight decay is decoupled from the moments, which makes it AdamW. With beta_1 = beta_2 = 0 and epsilon
-> 0 the direction is sign(g).

Sources: Kingma and Ba, "Adam", 2015, algorithm 1; Loshchilov and Hutter, "Decoupled weight decay regularization", 2019.
"""

from __future__ import annotations

from typing import ClassVar

from lockstep.base.records import dataclass
from lockstep.learn.methods.arrays import ieee, namespace
from lockstep.learn.methods.optimizers.optimizer import Layers, State, check_decay, check_frac, check_positive, zeros


@dataclass(frozen=True, slots=True)
class Adam:
    """State: (steps so far, first moments, second moments)."""

    name: ClassVar[str] = "adam"
    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-8
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        check_frac(self.beta_1, "beta_1")
        check_frac(self.beta_2, "beta_2")
        check_positive(self.epsilon, "epsilon")
        check_decay(self.weight_decay)

    def start(self, parameters: Layers) -> State:
        """No steps, zero moments."""
        return 0, zeros(parameters), zeros(parameters)

    @ieee
    def direction(self, gradients: Layers, state: State, parameters: Layers) -> tuple[Layers, State]:
        """(normalised first moments, moments)."""
        count, first, second = state
        count += 1
        first = tuple(self.beta_1 * m + (1 - self.beta_1) * g for m, g in zip(first, gradients, strict=True))
        second = tuple(self.beta_2 * v + (1 - self.beta_2) * g * g for v, g in zip(second, gradients, strict=True))
        unbias_1, unbias_2 = 1 - self.beta_1**count, 1 - self.beta_2**count
        directions = tuple(
            (m / unbias_1) / (namespace(v).sqrt(v / unbias_2) + self.epsilon) + self.weight_decay * w
            for m, v, w in zip(first, second, parameters, strict=True)
        )
        return directions, (count, first, second)
