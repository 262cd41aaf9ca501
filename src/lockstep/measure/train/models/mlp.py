"""A residual multi-layer perceptron: an input layer, blocks x + W2 relu(W1 x), an output layer."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

PIXELS, WIDTH = 64, 64


class Block(nn.Module):
    """x + down(relu(up(x)))."""

    SPLIT: ClassVar = {"enter": "enter", "up": "column", "down": "row"}

    def __init__(self, width: int) -> None:
        super().__init__()
        self.enter = nn.Identity()
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, width) to (batch, width)."""
        added: Tensor = self.down(self.up(self.enter(x)).relu())
        return x + added


def build(layers: int, classes: int) -> nn.Sequential:
    """`layers` pieces: input, blocks, output."""
    first = nn.Sequential(nn.Linear(PIXELS, WIDTH), nn.ReLU())
    return nn.Sequential(first, *(Block(WIDTH) for _ in range(layers - 2)), nn.Linear(WIDTH, classes))
