"""`Wire`: what a rank can do with the others, as Lockstep's own programs over point-to-point sends, every byte counted.

A program is run by `lockstep.run.execute`, so a rank that dies says at which step of which collective.
All operations are on flat tensors and in place where they can be; sums, not means. Shares are those of the collectives:
n balanced parts, the first ones larger by one element.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import cache
from typing import TYPE_CHECKING, Any

from lockstep.run.execute.lanes import lanes_of, settled
from lockstep.run.execute.runner import Runner
from lockstep.run.launch import Rank
from lockstep.run.profiling import annotated
from lockstep.simulate.collectives.rounds import cut
from lockstep.simulate.program import Program, extents

if TYPE_CHECKING:
    from torch import Tensor


@cache
def _program(op: str, algorithm: str, ranks: int, num_elems: int, element_B: int) -> Program:
    """A collective's program on a buffer of whole elements."""
    return settled(op, algorithm, ranks, num_elems * element_B, element_B)


class Wire:
    """A rank's end of the wires to the others. `sent_B` and `messages` count what it has sent so far."""

    def __init__(self, rank: Rank) -> None:
        self.rank = rank.number
        self.ranks = rank.ranks
        self.sent_B = 0
        self.messages = 0
        self._exchanges = 0
        self._owner = rank
        self._runners: dict[tuple[Any, ...], Runner] = {}

    def close(self) -> None:
        """Ends the threads that ran the programs."""
        for runner in self._runners.values():
            runner.close()

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
        return self._play("all-to-all", "direct", tensor, result="output")

    def send(self, tensor: Tensor, peer: int, tag: int = 0) -> None:
        """Sends and waits until the tensor may be changed."""
        import torch.distributed as dist

        self.count(tensor)
        with self._named("send", tensor, peer):
            dist.send(tensor, peer, tag=tag)

    def receive(self, tensor: Tensor, peer: int | None = None, tag: int = 0) -> int:
        """Receives into the tensor, from anybody when no peer is named; returns the sender."""
        import torch.distributed as dist

        with self._named("recv", tensor, peer):
            return int(dist.recv(tensor, peer, tag=tag))

    def exchange(self, given: Tensor, to: int, taken: Tensor, origin: int) -> None:
        """Sends to one rank and receives from one, at once."""
        import torch.distributed as dist

        self.count(given)
        with self._named("send-recv", given):
            sending = dist.isend(given, to)
            dist.recv(taken, origin)
            if sending is not None:
                sending.wait()

    def average_neighbours(self, tensor: Tensor) -> None:
        """The mean with the two neighbours on the ring of ranks, in place."""
        self._play("gossip", "ring", tensor)
        tensor /= min(3, self.ranks)

    def gather_uneven(self, tensors: Sequence[Tensor]) -> list[list[Tensor]]:
        """The same list of every rank, in the order of the ranks; lengths may differ and travel first."""
        import torch

        lengths = torch.zeros(self.ranks, len(tensors), dtype=torch.int64)
        lengths[self.rank] = torch.tensor([tensor.numel() * tensor.element_size() for tensor in tensors])
        self.all_gather(lengths.view(-1))
        packed = torch.cat([tensor.reshape(-1).view(torch.uint8) for tensor in tensors])
        every = [packed.new_empty(int(lengths[rank].sum())) for rank in range(self.ranks)]
        every[self.rank] = packed
        for turn in range(1, self.ranks):
            origin = (self.rank - turn) % self.ranks
            self.exchange(packed, (self.rank + turn) % self.ranks, every[origin], origin)
        return [
            [part.clone().view(own.dtype) for part, own in zip(whole.split(row.tolist()), tensors, strict=True)]
            for whole, row in zip(every, lengths, strict=True)
        ]

    def count(self, tensor: Tensor) -> None:
        """Counts one message."""
        self.sent_B += tensor.numel() * tensor.element_size()
        self.messages += 1

    def count_ring(self, op: str, tensor: Tensor) -> None:
        """Counts a collective that somebody else does on `tensor`, as if it were Lockstep's ring."""
        program = _program(op, "ring", self.ranks, tensor.numel(), tensor.element_size())
        self.sent_B += int(program.sent_B()[self.rank])
        self.messages += int(program.messages_sent()[self.rank])

    def _named(self, op: str, tensor: Tensor, peer: int | None = None) -> AbstractContextManager[None]:
        """The exchange that follows, by name in a profile."""
        self._exchanges += 1
        pair = "all" if peer is None else "-".join(map(str, (self.rank, peer) if op == "send" else (peer, self.rank)))
        return annotated(op, tensor.numel() * tensor.element_size(), self._exchanges, pair)

    def _play(self, op: str, algorithm: str, tensor: Tensor, result: str = "data") -> Tensor:
        """Runs a program on the tensor; the buffer that holds the result, and the tensor itself if that is `data`."""
        key = (op, algorithm, len(tensor), tensor.dtype)
        if key not in self._runners:
            self._runners[key] = self._runner(op, algorithm, tensor)
        runner = self._runners[key]
        runner.buffers["data"].copy_(tensor)
        with self._named(op, tensor):
            spans = runner.run()
        self.sent_B += spans.sent_B
        self.messages += spans.messages
        made = runner.buffers[result]
        return tensor.copy_(made) if result == "data" else made.clone()

    def _runner(self, op: str, algorithm: str, tensor: Tensor) -> Runner:
        """A program with buffers of its own, to be run again and again."""
        program = _program(op, algorithm, self.ranks, len(tensor), tensor.element_size())
        sizes = {name: int(extent[self.rank]) for name, extent in extents(program).items()}
        buffers = {name: tensor.new_empty(size) for name, size in ({"output": len(tensor)} | sizes).items()}
        buffers["data"] = tensor.new_empty(len(tensor))
        return Runner(self._owner, lanes_of(program, self.rank), buffers, op.replace("-", "_"), groups={})
