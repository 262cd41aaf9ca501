"""torch's own collectives, ready to be called again and again on buffers made once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockstep.errors import UnknownName
from lockstep.measure.bench.definition import OPS, pattern
from lockstep.measure.launch import Rank

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Prepared:
    """One implementation of one collective at one size, on one rank."""

    reset: Callable[[], object]
    """Puts the pattern back into the buffers."""
    run: Callable[[], object]
    result: Tensor
    """Where the rank's result is after `run`."""
    close: Callable[[], object] = lambda: None


def built_in(op: str, rank: Rank, elems: int) -> Prepared:
    """The collective of torch.distributed on `elems` float32 elements."""
    import torch
    import torch.distributed as dist

    data = pattern(rank.number, elems, rank.device)
    before, share = data.clone(), elems // rank.ranks
    mine = slice(rank.number * share, (rank.number + 1) * share)
    out = torch.zeros_like(data)

    # torch 2.13 renamed these two; the older names still serve torch 2.4.
    gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
    scatter_sum = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor

    def reset() -> None:
        data.copy_(before)
        out.zero_()

    def prepared(run: Callable[[], object], result: Tensor) -> Prepared:
        return Prepared(reset, run, result)

    match op:
        case "all-reduce":
            return prepared(lambda: dist.all_reduce(data), data)
        case "reduce":
            return prepared(lambda: dist.reduce(data, 0), data)
        case "broadcast":
            return prepared(lambda: dist.broadcast(data, 0), data)
        case "all-gather":
            return prepared(lambda: gather(out, data[mine]), out)
        case "reduce-scatter":
            return prepared(lambda: scatter_sum(out[:share], data), out)
        case "all-to-all":
            return prepared(lambda: dist.all_to_all_single(out, data), out)
        case "scatter":
            parts = list(data.split(share)) if rank.number == 0 else None
            return prepared(lambda: dist.scatter(out[:share], parts, 0), out)
        case "gather":
            places = list(out.split(share)) if rank.number == 0 else None
            return prepared(lambda: dist.gather(data[mine], places, 0), out)
        case "send-recv":
            return prepared(lambda: _around(rank, data, out), out)
    raise UnknownName("collective", op, OPS)


def _around(rank: Rank, data: Tensor, out: Tensor) -> None:
    """Every rank sends to the next and receives from the one before."""
    import torch.distributed as dist

    moves = [
        dist.P2POp(dist.isend, data, (rank.number + 1) % rank.ranks),
        dist.P2POp(dist.irecv, out, (rank.number - 1) % rank.ranks),
    ]
    for work in dist.batch_isend_irecv(moves):
        work.wait()
