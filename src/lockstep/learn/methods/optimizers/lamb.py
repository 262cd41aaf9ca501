"""LAMB: Adam whose every layer moves by the same share of its own length.

    r = Adam's direction, with weight_decay * w in it
    direction = (|w| / |r|) r                                1 where |w| or |r| is 0

Source: You et al., "Large batch optimization for deep learning: training BERT in 76 minutes", 2020, algorithm 2, with
the identity for the clipping function phi.
"""

from __future__ import annotations

from typing import ClassVar

from lockstep.base.records import dataclass, field
from lockstep.learn.methods.arrays import ieee, norm
from lockstep.learn.methods.optimizers.adam import Adam
from lockstep.learn.methods.optimizers.optimizer import Layers, State, trust_ratio


@dataclass(frozen=True, slots=True)
class Lamb:
    """State: Adam's."""

    name: ClassVar[str] = "lamb"
    adam: Adam = field(default_factory=lambda: Adam(epsilon=1e-6))
    """Moments and weight decay; epsilon 1e-6 as in the paper."""

    def start(self, parameters: Layers) -> State:
        """Adam's."""
        return self.adam.start(parameters)

    @ieee
    def direction(self, gradients: Layers, state: State, parameters: Layers) -> tuple[Layers, State]:
        """(Adam's directions as long as the weights, Adam's state)."""
        directions, state = self.adam.direction(gradients, state, parameters)
        pairs = zip(parameters, directions, strict=True)
        return tuple(trust_ratio(w, norm(direction)) * direction for w, direction in pairs), state
