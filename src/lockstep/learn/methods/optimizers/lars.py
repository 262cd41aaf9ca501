"""LARS: momentum whose every layer moves by the same share of its own length.

    local = trust * |w| / (|g| + weight_decay |w|)           per layer, 1 where |w| or |g| is 0
    m <- beta m + local (g + weight_decay w)                 direction = m
The first step moves a layer by `rate * trust` of its norm whatever the size of its gradient, so a rate that suits one
layer cannot blow up another. The rate multiplies the buffer, not what enters it (as in PyTorch's SGD).

Source: You, Gitman, Ginsburg, "Large batch training of convolutional networks", 2017, algorithm 1.
"""

from __future__ import annotations

from typing import ClassVar

from lockstep.base.records import dataclass
from lockstep.learn.methods.arrays import ieee, norm
from lockstep.learn.methods.optimizers.optimizer import (
    Layers,
    State,
    check_decay,
    check_frac,
    check_positive,
    trust_ratio,
    zeros,
)
from lockstep.learn.methods.optimizers.sgd import decayed


@dataclass(frozen=True, slots=True)
class Lars:
    """State: one buffer per layer."""

    name: ClassVar[str] = "lars"
    beta: float = 0.9
    trust: float = 0.001
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        check_frac(self.beta, "beta")
        check_positive(self.trust, "trust")
        check_decay(self.weight_decay)

    def start(self, parameters: Layers) -> State:
        """Zeros."""
        return zeros(parameters)

    @ieee
    def direction(self, gradients: Layers, state: State, parameters: Layers) -> tuple[Layers, State]:
        """(buffers, buffers)."""
        pushed = decayed(gradients, parameters, self.weight_decay)
        lengths = (norm(g) + self.weight_decay * norm(w) for g, w in zip(gradients, parameters, strict=True))
        local = (self.trust * trust_ratio(w, length) for w, length in zip(parameters, lengths, strict=True))
        state = tuple(self.beta * m + scale * g for m, scale, g in zip(state, local, pushed, strict=True))
        return state, state
