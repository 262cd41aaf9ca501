"""Collectives inside a model, as autograd functions in pairs: the backward pass of each is the other one's forward.

    enter       forward: nothing                  backward: all-reduce         into a tensor-parallel region
    leave       forward: all-reduce               backward: nothing            out of it
    gather      forward: all-gather along a dim   backward: reduce-scatter     the same two where the sequence is split
    scatter     forward: reduce-scatter           backward: all-gather
    take        forward: the own part             backward: all-gather         of values that all ranks have
    join        forward: all-gather               backward: the own part       for values that all ranks use alike
    add         forward: all-reduce               backward: all-reduce         of values that all ranks go on with
    swap        forward: all-to-all               backward: all-to-all         of the first dim

Source: Shoeybi et al. 2019, "Megatron-LM" (arXiv 1909.08053), section 3 (f and g); Korthikanti et al. 2022 (arXiv
2205.05198), section 4.2.2 (the pair g and g bar).

`Counting` counts what torch itself gives to its collectives: a mode that sees every operation on its way to the
backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from lockstep.run.train.wire import Wire

Work = Callable[[Tensor], Tensor]
# torch's operation -> (collective, which argument is the whole buffer)
COUNTED = {
    "c10d._allgather_base_.default": ("all-gather", 0),
    "c10d._reduce_scatter_base_.default": ("reduce-scatter", 1),
}


class _Pair(torch.autograd.Function):
    """Applies one function forward, the other one backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, forward: Work, backward: Work) -> Tensor:
        ctx.back = backward
        return forward(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return ctx.back(gradient), None, None


def enter(wire: Wire, x: Tensor) -> Tensor:
    """x; its gradients are summed over ranks."""
    return _apply(x, torch.clone, lambda gradient: summed(wire, gradient))


def leave(wire: Wire, x: Tensor) -> Tensor:
    """The sum over ranks."""
    return _apply(x, lambda part: summed(wire, part), torch.clone)


def gather(wire: Wire, x: Tensor, dim: int) -> Tensor:
    """The parts of all ranks along `dim`; gradients are summed and scattered."""
    return _apply(x, lambda part: gathered(wire, part, dim), lambda whole: scattered(wire, whole, dim))


def scatter(wire: Wire, x: Tensor, dim: int) -> Tensor:
    """The own part, along `dim`, of the sum over ranks."""
    return _apply(x, lambda whole: scattered(wire, whole, dim), lambda part: gathered(wire, part, dim))


def take(wire: Wire, x: Tensor, dim: int) -> Tensor:
    """The own part along `dim` of a tensor that all ranks have."""
    return _apply(x, lambda whole: _own(wire, whole, dim), lambda part: gathered(wire, part, dim))


def join(wire: Wire, x: Tensor, dim: int) -> Tensor:
    """The parts of all ranks along `dim`, for a use that is the same on all ranks."""
    return _apply(x, lambda part: gathered(wire, part, dim), lambda whole: _own(wire, whole, dim))


def add(wire: Wire, x: Tensor) -> Tensor:
    """The sum over ranks, which every rank uses for samples of its own; so gradients are summed too."""
    return _apply(x, lambda part: summed(wire, part), lambda gradient: summed(wire, gradient))


def swap(wire: Wire, x: Tensor) -> Tensor:
    """Part j of rank i along the first dim becomes part i of rank j."""
    return _apply(x, lambda given: _swapped(wire, given), lambda given: _swapped(wire, given))


def summed(wire: Wire, x: Tensor) -> Tensor:
    """The sum over ranks, a new tensor."""
    whole = x.detach().clone(memory_format=torch.contiguous_format)
    wire.all_reduce(whole.view(-1))
    return whole


def gathered(wire: Wire, part: Tensor, dim: int) -> Tensor:
    """The equal parts of all ranks, side by side along `dim`."""
    rows = part.detach().movedim(dim, 0).contiguous()
    whole = rows.new_empty(wire.ranks, rows.numel())
    whole[wire.rank] = rows.view(-1)
    wire.all_gather(whole.view(-1))
    return whole.view(-1, *rows.shape[1:]).movedim(0, dim).contiguous()


def scattered(wire: Wire, whole: Tensor, dim: int) -> Tensor:
    """The own part along `dim` of the sum over ranks."""
    rows = whole.detach().movedim(dim, 0).clone(memory_format=torch.contiguous_format)
    own = wire.reduce_scatter(rows.view(-1))
    return own.view(-1, *rows.shape[1:]).movedim(0, dim).contiguous()


def _own(wire: Wire, whole: Tensor, dim: int) -> Tensor:
    return whole.detach().chunk(wire.ranks, dim)[wire.rank].contiguous()


def _swapped(wire: Wire, given: Tensor) -> Tensor:
    return wire.all_to_all(given.detach().contiguous().view(-1)).view_as(given)


def _apply(x: Tensor, forward: Work, backward: Work) -> Tensor:
    made: Tensor = _Pair.apply(x, forward, backward)  # type: ignore[no-untyped-call]
    return made


class Counting(TorchDispatchMode):
    """Counts gathers and scatters as if each were Lockstep's ring."""

    def __init__(self, wire: Wire) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.wire = wire

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if str(func) in COUNTED:
            op, place = COUNTED[str(func)]
            self.wire.count_ring(op, args[place])
        return func(*args, **(kwargs or {}))
