"""Starts the programs of this folder: four processes on this machine, or those that torchrun started."""

import os
import socket
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress

import torch
import torch.distributed as dist
from torch import Tensor, multiprocessing
from torch.autograd import Function
from torch.autograd.function import FunctionCtx

RANKS = 4
Work = Callable[[], str]


def run(*works: Work) -> None:
    """Runs all of them, one after another, on every rank; rank 0 prints what each returns."""
    if "RANK" in os.environ:
        _work(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), "env://", works)
        return
    with tempfile.TemporaryDirectory() as folder:
        given = (RANKS, f"file://{folder}/meeting", works)
        multiprocessing.start_processes(_work, given, nprocs=RANKS, start_method="fork")


def _work(rank: int, ranks: int, meeting: str, works: tuple[Work, ...]) -> None:
    torch.set_num_threads(1)
    if meeting != "env://" and "lo" in {name for _, name in socket.if_nameindex()}:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=ranks)
    for work in works:
        torch.manual_seed(0)
        said = work()
        if rank == 0:
            print(said, flush=True)
    # No rank leaves while another still reads from it.
    dist.barrier()
    with suppress(RuntimeError):
        dist.destroy_process_group()


def same(found: Tensor, right: Tensor) -> bool:
    """Whether they agree but for the order of additions in 64 bits."""
    return torch.allclose(found, right, rtol=1e-11, atol=1e-11)


_SCATTER = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
_GATHER = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
"""One call each, by its name in new versions of PyTorch or in older ones."""


def reduce_scatter(whole: Tensor, group: dist.ProcessGroup | None = None) -> Tensor:
    """This rank's part of the sum over ranks; parts divide the first dimension."""
    part = whole.new_empty(whole.shape[0] // dist.get_world_size(group), *whole.shape[1:])
    _SCATTER(part, whole.contiguous(), group=group)
    return part


def all_gather(part: Tensor, group: dist.ProcessGroup | None = None) -> Tensor:
    """The parts of all ranks, one after another along the first dimension."""
    whole = part.new_empty(part.shape[0] * dist.get_world_size(group), *part.shape[1:])
    _GATHER(whole, part.contiguous(), group=group)
    return whole


def my_part(whole: Tensor, dim: int = 0) -> Tensor:
    """This rank's part of a tensor that every rank has."""
    return whole.chunk(dist.get_world_size(), dim)[dist.get_rank()]


def exchange(gives: Tensor | None, to: int | None, takes: Tensor, source: int | None) -> Tensor | None:
    """Sends to one rank and receives from one, posted together, so that neither waits for the other; what came.

    Either rank may be None; `takes` has the shape of what comes, and stays as it is.
    """
    came = None if source is None else torch.empty_like(takes)
    posted = [] if to is None else [dist.P2POp(dist.isend, gives, to)]
    posted += [] if came is None else [dist.P2POp(dist.irecv, came, source)]
    for message in dist.batch_isend_irecv(posted) if posted else []:
        message.wait()
    return came


def paired(forward: Callable[[Tensor], Tensor], backward: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """A step of a layer that does the one to its inputs and the other to its gradients."""

    class Step(Function):
        @staticmethod
        def forward(ctx: FunctionCtx, x: Tensor) -> Tensor:
            return forward(x)

        @staticmethod
        def backward(ctx: FunctionCtx, slope: Tensor) -> Tensor:
            return backward(slope)

    return Step.apply


def in_one_piece(x: Tensor, weights: Iterable[Tensor]) -> Tensor:
    """The mean squared output of layers of tanh, on one rank."""
    for one in weights:
        x = torch.tanh(x @ one)
    return x.square().mean()
