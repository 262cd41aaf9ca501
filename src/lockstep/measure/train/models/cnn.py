"""A small convolutional network: an input convolution, residual convolutions, average pooling and an output layer."""

from __future__ import annotations

from torch import Tensor, nn

SIDE, CHANNELS = 8, 12


class Convolution(nn.Module):
    """x + relu(norm(conv(x))); the norm is nothing until someone puts one there (method batch-norm)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm: nn.Module = nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """(batch, channels, side, side) to the same."""
        added: Tensor = self.norm(self.conv(x)).relu()
        return x + added


def build(layers: int, classes: int) -> nn.Sequential:
    """`layers` pieces: input, residual convolutions, output."""
    first = nn.Sequential(nn.Unflatten(1, (1, SIDE, SIDE)), nn.Conv2d(1, CHANNELS, 3, padding=1), nn.ReLU())
    last = nn.Sequential(nn.AvgPool2d(2), nn.Flatten(), nn.Linear(CHANNELS * SIDE**2 // 4, classes))
    return nn.Sequential(first, *(Convolution(CHANNELS) for _ in range(layers - 2)), last)
