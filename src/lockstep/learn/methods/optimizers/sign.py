"""Sign descent, with momentum if wanted.

    m <- beta m + (1 - beta) g               direction = sign(m)
beta = 0 is signSGD, above it Signum. It has the direction of the maximum norm's step but not its length: that step is
-(alpha / 2) |g|_1 sign(g), which shrinks with the gradient, while this one keeps its length and needs a falling rate.

Source: Bernstein, Wang, Azizzadenesheli, Anandkumar, "signSGD", 2018, algorithms 1 and 2.
"""

from __future__ import annotations

from typing import ClassVar

from lockstep.base.records import dataclass
from lockstep.learn.methods.arrays import ieee, namespace
from lockstep.learn.methods.optimizers.optimizer import Layers, State, check_frac, zeros


@dataclass(frozen=True, slots=True)
class Sign:
    """State: one buffer per layer."""

    name: ClassVar[str] = "sign"
    beta: float = 0.0

    def __post_init__(self) -> None:
        check_frac(self.beta, "beta")

    def start(self, parameters: Layers) -> State:
        """Zeros."""
        return zeros(parameters)

    @ieee
    def direction(self, gradients: Layers, state: State, parameters: Layers) -> tuple[Layers, State]:
        """(signs of the buffers, buffers)."""
        state = tuple(self.beta * m + (1 - self.beta) * g for m, g in zip(state, gradients, strict=True))
        return tuple(namespace(m).sign(m) for m in state), state
