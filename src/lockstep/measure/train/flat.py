"""`Flat`: parameters and their gradients as two flat vectors, which the parameters become views of.

What the methods send, shard, average and compress is then one tensor, and a bucket is a slice of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor, nn


class Flat:
    """`weights` and `gradients` of some parameters, each of shape (elements,), in the order given."""

    def __init__(self, parameters: Iterable[nn.Parameter]) -> None:
        import torch

        self.parameters = list(parameters)
        self.weights = torch.cat([parameter.detach().reshape(-1) for parameter in self.parameters])
        self.gradients = torch.zeros_like(self.weights)
        self.ranges: list[tuple[int, int]] = []
        start = 0
        for parameter in self.parameters:
            stop = start + parameter.numel()
            self.ranges.append((start, stop))
            parameter.data = self.weights[start:stop].view_as(parameter)
            parameter.grad = self.gradients[start:stop].view_as(parameter)
            start = stop

    def __len__(self) -> int:
        return len(self.weights)

    def load(self, weights: Tensor) -> None:
        """Sets all parameters from a flat vector."""
        self.weights.copy_(weights)
