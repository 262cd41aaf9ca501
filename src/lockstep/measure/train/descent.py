"""`Descent`: an optimizer of `lockstep.methods` at work on a flat vector of weights, or on a shard of it.

Only optimizers that treat every entry alike are allowed, so that a shard steps as the whole would.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from lockstep.methods.optimizers import optimizer

if TYPE_CHECKING:
    from torch import Tensor

ENTRYWISE = ("sgd", "momentum", "adam")


class Descent:
    """Weights, an optimizer's state for them, and a learning rate."""

    def __init__(self, name: str, weights: Tensor, learning_rate: float) -> None:
        self.rule = optimizer(name)
        self.weights = weights
        self.learning_rate = learning_rate
        self.state = self.rule.start((weights,))

    def step(self, gradients: Tensor) -> None:
        """Takes one step, in place."""
        (direction,), self.state = self.rule.direction((gradients,), self.state, (self.weights,))
        self.weights.sub_(direction, alpha=self.learning_rate)

    def remembered(self) -> Any:
        """Weights and state, nested."""
        return self.weights, self.state

    def remember(self, nested: Any) -> None:
        """Takes on what `remembered` gave; the weights in place."""
        weights, self.state = nested
        self.weights.copy_(weights)

    def held(self) -> tuple[Tensor, ...]:
        """What it remembers from step to step."""
        return tuple(_tensors(self.state))


def _tensors(state: Any) -> Iterator[Tensor]:
    """The tensors in nested tuples."""
    if isinstance(state, tuple):
        for part in state:
            yield from _tensors(part)
    elif hasattr(state, "numel"):
        yield state
