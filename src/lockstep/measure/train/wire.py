"""`Wire`: what a rank can do with the others, as Lockstep's own programs over point-to-point sends, every byte counted.

All operations are on flat tensors and in place where they can be; sums, not means. Shares are those of the collectives:
n balanced parts, the first ones larger by one element.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from lockstep.collectives import get
from lockstep.collectives.rounds import cut
from lockstep.measure.train.play import play
from lockstep.program import Program

if TYPE_CHECKING:
    from torch import Tensor


@cache
def _program(op: str, algorithm: str, ranks: int, num_elems: int, element_B: int) -> Program:
    """A collective's program on a buffer of whole elements."""
    return get(op, algorithm).program(ranks, num_elems * element_B, element_B=element_B)


class Wire:
    """A rank's end of the wires to the others. `sent_B` and `messages` count what it has sent so far."""

    def __init__(self, rank: int, ranks: int) -> None:
        self.rank = rank
        self.ranks = ranks
        self.sent_B = 0
        self.messages = 0

    def share(self, num_elems: int, rank: int | None = None) -> slice:
        """Where the share of a rank, by default this one, lies in a flat tensor."""
        edges = cut(0, num_elems, self.ranks)
        place = self.rank if rank is None else rank
        return slice(int(edges[place]), int(edges[place + 1]))

    def all_reduce(self, tensor: Tensor, algorithm: str = "ring") -> None:
        """The sum over ranks, in place."""
        self._play("all-reduce", algorithm, tensor)

    def average(self, tensor: Tensor, algorithm: str = "ring") -> None:
        """The mean over ranks, in place."""
        self.all_reduce(tensor, algorithm)
        tensor /= self.ranks

    def reduce_scatter(self, tensor: Tensor) -> Tensor:
        """The rank's own share of the sum, a view of `tensor`; the rest of it is spoilt."""
        self._play("reduce-scatter", "ring", tensor)
        return tensor[self.share(len(tensor))]

    def all_gather(self, tensor: Tensor) -> None:
        """Every rank's share, where this rank had only its own right, in place."""
        self._play("all-gather", "ring", tensor)

    def all_to_all(self, tensor: Tensor) -> Tensor:
        """Part j of rank i becomes part i of rank j; equal parts. Returns a new tensor."""
        output = tensor.clone()
        self._play("all-to-all", "direct", tensor, output=output)
        return output

    def send(self, tensor: Tensor, peer: int, tag: int = 0) -> None:
        """Sends and waits until the tensor may be changed."""
        import torch.distributed as dist

        self.count(tensor)
        dist.send(tensor, peer, tag=tag)

    def receive(self, tensor: Tensor, peer: int | None = None, tag: int = 0) -> int:
        """Receives into the tensor, from anybody when no peer is named; returns the sender."""
        import torch.distributed as dist

        return int(dist.recv(tensor, peer, tag=tag))

    def exchange(self, given: Tensor, taken: Tensor, peer: int) -> None:
        """Sends to a peer and receives from it at once."""
        import torch.distributed as dist

        self.count(given)
        sending = dist.isend(given, peer)
        dist.recv(taken, peer)
        if sending is not None:
            sending.wait()

    def count(self, tensor: Tensor) -> None:
        """Counts one message."""
        self.sent_B += tensor.numel() * tensor.element_size()
        self.messages += 1

    def count_ring(self, op: str, tensor: Tensor) -> None:
        """Counts a collective that somebody else does on `tensor`, as if it were Lockstep's ring."""
        program = _program(op, "ring", self.ranks, tensor.numel(), tensor.element_size())
        self.sent_B += int(program.sent_B()[self.rank])
        self.messages += int(program.messages_sent()[self.rank])

    def _play(self, op: str, algorithm: str, tensor: Tensor, **buffers: Tensor) -> None:
        program = _program(op, algorithm, self.ranks, len(tensor), tensor.element_size())
        play(program, self.rank, {"data": tensor, **buffers}, self.count)
