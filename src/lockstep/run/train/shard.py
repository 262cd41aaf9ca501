"""`Shard`: a rank's share of the weights and of the gradients of one piece of the model.

`Flat`: parameters and their gradients as two flat vectors, which the parameters become views of. What the methods send,
shard, average and compress is then one tensor, and a bucket is a slice of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor, nn

    from lockstep.run.train.wire import Wire


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


class Shard:
    """`weights` and `gradients` are the rank's share of the piece's flat vectors, of `num_elems` elements."""

    def __init__(self, piece: nn.Module, wire: Wire) -> None:
        import torch

        self.wire = wire
        self.names = [name for name, _ in piece.named_parameters()]
        self.parameters = list(piece.parameters())
        self.shapes = [parameter.shape for parameter in self.parameters]
        whole = torch.cat([parameter.detach().reshape(-1) for parameter in self.parameters])
        self.num_elems = len(whole)
        self.own = wire.share(self.num_elems)
        self.weights = whole[self.own].clone()
        self.gradients = torch.zeros_like(self.weights)

    def gather(self) -> Tensor:
        """The weights of the whole piece, flat."""
        whole = self.weights.new_empty(self.num_elems)
        whole[self.own] = self.weights
        self.wire.all_gather(whole)
        return whole

    def add(self, gradients: Tensor) -> None:
        """Adds the rank's share of the mean over ranks of the piece's flat gradients."""
        self.gradients += self.wire.reduce_scatter(gradients) / self.wire.ranks

    def views(self, whole: Tensor) -> list[Tensor]:
        """The parameters as views of a flat vector."""
        sizes = [shape.numel() for shape in self.shapes]
        return [part.view(shape) for part, shape in zip(whole.split(sizes), self.shapes, strict=True)]

    def restore(self) -> None:
        """Gathers the weights into the piece's own parameters."""
        for parameter, view in zip(self.parameters, self.views(self.gather()), strict=True):
            parameter.data = view.clone()

    def add_when_ready(self) -> list[Callable[[], None]]:
        """Has the backward pass `add` the piece's gradients as soon as all are there, and forget them then.

        Returns what removes the hooks.
        """
        import torch

        missing = len(self.parameters)

        def ready(_: Tensor) -> None:
            nonlocal missing
            missing -= 1
            if not missing:
                missing = len(self.parameters)
                self.add(torch.cat([parameter.grad.reshape(-1) for parameter in self.parameters]))  # type: ignore[union-attr]
                for parameter in self.parameters:
                    parameter.grad = None

        return [parameter.register_post_accumulate_grad_hook(ready).remove for parameter in self.parameters]


def shards_of(model: nn.Sequential, wire: Wire) -> list[Shard]:
    """One shard per piece that has parameters."""
    return [Shard(piece, wire) for piece in model if any(True for _ in piece.parameters())]
