"""Heavy-ball and Nesterov momentum, in the form of sums.

    m <- beta m + g                        (g with weight decay, as in `sgd`)
    direction = m                          heavy ball
    direction = g + beta m                 Nesterov
The sum form: a steady gradient gives a direction of g / (1 - beta). The averaging form, m <- beta m + (1 - beta) g,
needs a rate 1 / (1 - beta) times as large for the same path.

Sources: Polyak, "Some methods of speeding up the convergence of iteration methods", 1964; Sutskever et al., "On the
importance of initialization and momentum in deep learning", 2013.
"""

from __future__ import annotations

from typing import ClassVar

from lockstep.base.records import dataclass
from lockstep.learn.methods.arrays import ieee
from lockstep.learn.methods.optimizers.optimizer import Layers, State, check_decay, check_frac, zeros
from lockstep.learn.methods.optimizers.sgd import decayed


@dataclass(frozen=True, slots=True)
class Momentum:
    """State: one buffer per layer."""

    name: ClassVar[str] = "momentum"
    beta: float = 0.9
    nesterov: bool = False
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        check_frac(self.beta, "beta")
        check_decay(self.weight_decay)

    def start(self, parameters: Layers) -> State:
        """Zeros."""
        return zeros(parameters)

    @ieee
    def direction(self, gradients: Layers, state: State, parameters: Layers) -> tuple[Layers, State]:
        """(buffers or their look-ahead, buffers)."""
        gradients = decayed(gradients, parameters, self.weight_decay)
        state = tuple(self.beta * m + g for m, g in zip(state, gradients, strict=True))
        if not self.nesterov:
            return state, state
        return tuple(g + self.beta * m for m, g in zip(state, gradients, strict=True)), state
