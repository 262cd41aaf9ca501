"""Batch normalization over the samples of all ranks."""

from __future__ import annotations

from torch import Tensor, nn

from lockstep.measure.train.exchanges import add
from lockstep.measure.train.models.cnn import Convolution
from lockstep.measure.train.wire import Wire


class SynchronizedBatchNorm(nn.BatchNorm2d):
    """torch's batch norm, with mean and variance of the samples of all ranks, which have equally many."""

    wire: Wire

    def forward(self, x: Tensor) -> Tensor:
        """(batch, channels, height, width) to the same."""
        if not self.training or self.running_mean is None or self.running_var is None:
            return super().forward(x)
        mean = add(self.wire, x.mean((0, 2, 3))) / self.wire.ranks
        centred = x - mean[:, None, None]
        variance = add(self.wire, (centred**2).mean((0, 2, 3))) / self.wire.ranks
        count = x.numel() // x.shape[1] * self.wire.ranks
        self._remember(self.running_mean, mean)
        self._remember(self.running_var, variance * count / (count - 1))
        scale = self.weight * (variance + self.eps).rsqrt()
        return centred * scale[:, None, None] + self.bias[:, None, None]

    def _remember(self, running: Tensor, new: Tensor) -> None:
        running.lerp_(new.detach(), self.momentum or 0.0)


def normalize(model: nn.Module, wire: Wire | None) -> None:
    """Puts a batch norm into every convolution: over the ranks of the wire, or torch's own without one."""
    for piece in model.modules():
        if isinstance(piece, Convolution):
            channels = piece.conv.out_channels
            norm = nn.BatchNorm2d(channels) if wire is None else SynchronizedBatchNorm(channels)
            if isinstance(norm, SynchronizedBatchNorm) and wire is not None:
                norm.wire = wire
            piece.norm = norm
