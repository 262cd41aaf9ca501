"""An MLP whose middle pieces are experts: each sample goes to the one its router likes best, scaled by the liking.

No sample is dropped: every expert has room for the whole batch, so the exchange of expert parallelism has one size.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lockstep.measure.train.models.mlp import PIXELS, WIDTH

EXPERTS = 4


class Experts(nn.Module):
    """E two-layer experts side by side, as batched matrices."""

    def __init__(self, experts: int, width: int) -> None:
        super().__init__()
        scale = width**-0.5
        self.up = nn.Parameter(scale * torch.randn(experts, width, width))
        self.down = nn.Parameter(scale * torch.randn(experts, width, width))

    def forward(self, room: Tensor) -> Tensor:
        """(experts, places, width) to the same."""
        return (room @ self.up).relu() @ self.down


class Mixture(nn.Module):
    """x + p_e expert_e(x), e the expert with the largest routing probability p_e (Switch Transformer, 2101.03961)."""

    def __init__(self, experts: int, width: int) -> None:
        super().__init__()
        self.router = nn.Linear(width, experts)
        self.experts: nn.Module = Experts(experts, width)
        self.num_experts = experts

    def forward(self, x: Tensor) -> Tensor:
        """(batch, width) to (batch, width)."""
        likings, chosen = self.router(x).softmax(-1).max(-1)
        sent = nn.functional.one_hot(chosen, self.num_experts).to(x.dtype).T[:, :, None]
        returned = self.experts(sent * x)
        made: Tensor = x + likings[:, None] * (sent * returned).sum(0)
        return made


def build(layers: int, classes: int) -> nn.Sequential:
    """`layers` pieces: input, mixtures, output."""
    first = nn.Sequential(nn.Linear(PIXELS, WIDTH), nn.ReLU())
    return nn.Sequential(first, *(Mixture(EXPERTS, WIDTH) for _ in range(layers - 2)), nn.Linear(WIDTH, classes))
