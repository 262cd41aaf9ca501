"""What a collective must leave behind, by torch's own collective on the same tensors.

Shares are those of the programs: of N elements in n shares the first N mod n are larger by one. torch wants equal
shares, so shorter ones are padded on the way. `parameter-server` is an all-reduce for its workers; gossip and the
asynchronous server have no counterpart in torch.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from lockstep.collectives.rounds import cut
from lockstep.errors import BadInput

if TYPE_CHECKING:
    from torch import Tensor
    from torch.distributed import ProcessGroup

Promise = tuple[str, int, "Tensor"]
"""(buffer, first element, values) that must hold afterwards."""


def built_in(op: str, data: Tensor, number: int, ranks: int, group: ProcessGroup | None) -> list[Promise]:
    """The promises of `op` for rank `number` of `ranks`, from `data` before the collective. All members call it."""
    import torch.distributed as dist

    own = data.clone()
    match op:
        case "all-reduce" | "parameter-server":
            dist.all_reduce(own, group=group)
            return [("data", 0, own)]
        case "reduce":
            dist.reduce(own, 0, group=group)
            return [("data", 0, own)] if number == 0 else []
        case "broadcast":
            dist.broadcast(own, 0, group=group)
            return [("data", 0, own)]
        case "all-to-all":
            return [("output", 0, all_to_all(data, number, ranks, group))]
    shares = _Shares(data, ranks)
    match op:
        case "reduce-scatter":
            share = shares.empty()
            dist.reduce_scatter(share, shares.padded(), group=group)
            return shares.promise(number, share)
        case "scatter":
            share = shares.empty()
            dist.scatter(share, shares.padded() if number == 0 else None, 0, group=group)
            return shares.promise(number, share)
        case "gather":
            gathered = [shares.empty() for _ in range(ranks)]
            dist.gather(shares.padded()[number], gathered if number == 0 else None, 0, group=group)
            return [row for i in range(ranks) for row in shares.promise(i, gathered[i])] if number == 0 else []
        case "all-gather":
            gathered = [shares.empty() for _ in range(ranks)]
            dist.all_gather(gathered, shares.padded()[number], group=group)
            return [row for i in range(ranks) for row in shares.promise(i, gathered[i])]
    raise BadInput(f"torch has no built-in collective for {op}")


def all_to_all(data: Tensor, number: int, ranks: int, group: ProcessGroup | None) -> Tensor:
    """What all-to-all leaves in `output`: one block from every rank, all of the size of this rank's own share."""
    import torch.distributed as dist

    edges = cut(0, len(data), ranks).tolist()
    sizes = [high - low for low, high in itertools.pairwise(edges)]
    received = data.new_empty(sizes[number] * ranks)
    dist.all_to_all_single(received, data, [sizes[number]] * ranks, sizes, group=group)
    return received


class _Shares:
    """The shares of a buffer, padded to one size."""

    def __init__(self, data: Tensor, ranks: int) -> None:
        self.data = data
        self.edges: list[int] = cut(0, len(data), ranks).tolist()
        self.largest = max(1, self.edges[1] - self.edges[0])

    def empty(self) -> Tensor:
        """Room for one share."""
        return self.data.new_zeros(self.largest)

    def padded(self) -> list[Tensor]:
        """Every share, with zeros to the largest."""
        shares = []
        for low, high in itertools.pairwise(self.edges):
            share = self.empty()
            share[: high - low] = self.data[low:high]
            shares.append(share)
        return shares

    def promise(self, index: int, share: Tensor) -> list[Promise]:
        """Share `index` at its place."""
        low, high = self.edges[index], self.edges[index + 1]
        return [("data", low, share[: high - low])]
