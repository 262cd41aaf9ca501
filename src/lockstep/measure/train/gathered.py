"""`Gathered`: a piece of the model that has its weights only while it computes; the heart of ZeRO-3.

Autograd saves weights for the backward pass. Here it saves where they lie in the gathered vector instead, and the
vector is gathered again when the first of them is asked for.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.autograd.graph import saved_tensors_hooks
from torch.func import functional_call

from lockstep.measure.train.shard import Shard

Place = tuple[torch.Size, tuple[int, ...], int]


class _Gather(torch.autograd.Function):
    """Forward: all-gather of the weights. Backward: reduce-scatter of the gradients into the shard."""

    @staticmethod
    def forward(ctx: Any, anchor: Tensor, piece: Gathered) -> Tensor:
        ctx.piece = piece
        return piece.whole()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradients: Tensor) -> tuple[None, None]:
        ctx.piece.finish(gradients)
        return None, None


class Gathered:
    """Calls a piece with weights that are gathered for the call; leaves the piece's own parameters empty."""

    def __init__(self, piece: nn.Module, shard: Shard) -> None:
        self.piece = piece
        self.shard = shard
        self.anchor = torch.zeros((), requires_grad=True)
        self.gathered: Tensor | None = None
        for parameter in shard.parameters:
            parameter.data = parameter.data.new_empty(0)

    def __call__(self, x: Tensor) -> Tensor:
        """What the piece makes of x."""
        weights: Tensor = _Gather.apply(self.anchor, self)  # type: ignore[no-untyped-call]
        named = dict(zip(self.shard.names, self.shard.views(weights), strict=True))
        with saved_tensors_hooks(self._pack, self._unpack):
            made: Tensor = functional_call(self.piece, named, (x,))
        self.gathered = None
        return made

    def whole(self) -> Tensor:
        """All weights of the piece, gathered if they are not here."""
        if self.gathered is None:
            self.gathered = self.shard.gather()
        return self.gathered

    def finish(self, gradients: Tensor) -> None:
        """The piece's backward pass is done."""
        self.gathered = None
        self.shard.add(gradients)

    def _pack(self, saved: Tensor) -> Tensor | Place:
        """Autograd wants to keep a tensor: for one of the weights, its place is enough."""
        whole = self.gathered
        if whole is not None and saved.untyped_storage().data_ptr() == whole.untyped_storage().data_ptr():
            return saved.size(), saved.stride(), int(saved.storage_offset())
        return saved

    def _unpack(self, kept: Tensor | Place) -> Tensor:
        return kept if isinstance(kept, Tensor) else self.whole().as_strided(*kept)
