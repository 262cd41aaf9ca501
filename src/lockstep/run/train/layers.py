"""Layers that ranks hold or compute together.

Linear ones, of which a rank holds 1/n, by columns (of the output) or by rows (of the input) of the weights:

    column   y_k = x A_k + b_k            every rank a part of the output
    row      y = sum_k x_k A_k + b        every rank a part of the input; the sum leaves the region

With `sequence` the region is entered by an all-gather along the sequence and left by a reduce-scatter, and everything
outside it sees 1/n of the sequence.

Source: Shoeybi et al. 2019 (arXiv 1909.08053), section 3; Korthikanti et al. 2022 (arXiv 2205.05198), section 4.2.

`ParallelExperts`: experts of which a rank holds 1/n, with the exchange around them. `SynchronizedBatchNorm`: statistics
of the samples of all ranks.

`Gathered`: a piece of the model that has its weights only while it computes; the heart of ZeRO-3. Autograd saves
weights for the backward pass. Here it saves where they lie in the gathered vector instead, and the vector is gathered
again when the first of them is asked for."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.autograd.graph import saved_tensors_hooks
from torch.func import functional_call

from lockstep.run.train.exchanges import add, enter, gather, gathered, leave, scatter, swap
from lockstep.run.train.models import split_linears
from lockstep.run.train.networks import Convolution, Experts, Mixture
from lockstep.run.train.shard import Shard
from lockstep.run.train.wire import Wire

SEQUENCE_DIM = 1
Dims = dict[str, int]
"""Parameter name -> the dim of which a rank holds a part."""
Place = tuple[torch.Size, tuple[int, ...], int]


class Row(nn.Linear):
    """A rank's rows of a linear layer; the bias is whole and added after the sum."""

    wire: Wire
    sequence: bool

    def forward(self, x: Tensor) -> Tensor:
        """The sum over ranks, or the rank's part of its sequence."""
        part = nn.functional.linear(x, self.weight)
        whole = scatter(self.wire, part, SEQUENCE_DIM) if self.sequence else leave(self.wire, part)
        return whole + self.bias


def split(model: nn.Sequential, wire: Wire, sequence: bool) -> Dims:
    """Leaves a rank's part of every linear layer that its piece says can be split; returns what was split."""
    dims: Dims = {}
    for place, piece in enumerate(model):
        for name, kind in split_linears(piece).items():
            layer = piece.get_submodule(name)
            if kind == "enter":
                layer.register_forward_hook(lambda _, __, x: _entered(wire, x, sequence))
                continue
            dims[f"{place}.{name}.weight"] = 0 if kind == "column" else 1
            _cut(layer, "weight", wire, 0 if kind == "column" else 1)
            if kind == "column":
                dims[f"{place}.{name}.bias"] = 0
                _cut(layer, "bias", wire, 0)
            else:
                layer.__class__ = Row
                layer.wire, layer.sequence = wire, sequence  # type: ignore[assignment]
    return dims


def join_parts(model: nn.Module, whole: nn.Module, dims: Dims, wire: Wire) -> None:
    """Gathers the split parameters of `model` into those of `whole`, and copies the others."""
    for name, parameter in whole.named_parameters():
        part = model.get_parameter(name)
        parameter.data.copy_(gathered(wire, part, dims[name]) if name in dims else part.detach())


def _entered(wire: Wire, x: Tensor, sequence: bool) -> Tensor:
    return gather(wire, x, SEQUENCE_DIM) if sequence else enter(wire, x)


def _cut(layer: nn.Module, name: str, wire: Wire, dim: int) -> None:
    part = layer.get_parameter(name).detach().chunk(wire.ranks, dim)[wire.rank]
    setattr(layer, name, nn.Parameter(part.clone()))


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
