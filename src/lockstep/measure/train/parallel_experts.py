"""Experts of which a rank holds 1/n, with the exchange around them."""

from __future__ import annotations

from torch import Tensor, nn

from lockstep.measure.train.exchanges import swap
from lockstep.measure.train.models.moe import Experts, Mixture
from lockstep.measure.train.parallel_linear import Dims
from lockstep.measure.train.wire import Wire


class ParallelExperts(nn.Module):
    """Sends every expert's room to its rank, lets the own experts work, sends the room back."""

    def __init__(self, whole: Experts, wire: Wire) -> None:
        super().__init__()
        self.wire = wire
        self.up, self.down = (
            nn.Parameter(part.detach().chunk(wire.ranks)[wire.rank].clone()) for part in (whole.up, whole.down)
        )

    def forward(self, room: Tensor) -> Tensor:
        """(experts, places, width) to the same; room from all ranks meets at the expert."""
        arrived = swap(self.wire, room).unflatten(0, (self.wire.ranks, -1)).transpose(0, 1)
        made = (arrived.flatten(1, 2) @ self.up).relu() @ self.down
        leaving = made.unflatten(1, (self.wire.ranks, -1)).transpose(0, 1).flatten(0, 1)
        return swap(self.wire, leaving)


def spread(model: nn.Sequential, wire: Wire) -> Dims:
    """Leaves a rank's experts in every mixture; returns which parameters were split, all along dim 0."""
    dims: Dims = {}
    for place, piece in enumerate(model):
        if isinstance(piece, Mixture) and isinstance(piece.experts, Experts):
            piece.experts = ParallelExperts(piece.experts, wire)
            dims |= {f"{place}.experts.{name}": 0 for name, _ in piece.experts.named_parameters()}
    return dims
