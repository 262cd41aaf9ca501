"""One message over torch.distributed: a large one travels in pieces, all posted at once, and is used piece by piece.

As inside MPI and gloo, pieces let the receiver work on what has arrived while the rest is on its way, in the caches.
A message stays one message: it starts with its first piece, ends with its last, and is counted once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from lockstep.measure.launch import Rank

if TYPE_CHECKING:
    from torch import Tensor
    from torch.distributed import ProcessGroup

PIECE_B = 1 << 19
"""Fitted: the fastest of 256 KiB to 8 MiB for a ring of 16 MB on two ranks with a core each."""
MOST_PIECES = 1 << 13
"""Tags of a message's pieces follow one another; larger messages have larger pieces."""


class Transfers:
    """Sends and receives of one rank; `number` is the message's among all of the program."""

    def __init__(self, rank: Rank) -> None:
        self.rank = rank
        # Ranks that share cores have nobody to overlap with, and every piece costs a wake-up.
        self.whole = rank.cores is not None and rank.ranks > rank.cores

    def send(self, tensor: Tensor, peer: int, number: int) -> int:
        """Sends the tensor and waits until it has left; returns its bytes."""
        group, pieces = _world(), enumerate(self._pieces(tensor))
        # Each is waited for exactly once: a second wait on a finished gloo send hangs until the group's timeout.
        works = [group.send([piece], peer, number * MOST_PIECES + i) for i, piece in pieces]
        for work in works:
            work.wait()
        self._settle()
        return tensor.numel() * tensor.element_size()

    def recv(self, tensor: Tensor, peer: int, number: int, arrived: Callable[[int], object] | None = None) -> None:
        """Receives into the tensor; `arrived(elements)` is told how many of the first ones are there, as they come."""
        group, pieces = _world(), self._pieces(tensor)
        works = [group.recv([piece], peer, number * MOST_PIECES + i) for i, piece in enumerate(pieces)]
        elements = 0
        for work, piece in zip(works, pieces, strict=True):
            work.wait()
            elements += len(piece)
            if arrived is not None:
                self._settle()
                arrived(elements)
        self._settle()

    def _pieces(self, tensor: Tensor) -> tuple[Tensor, ...]:
        """The tensor in consecutive pieces of about PIECE_B, the same on both sides."""
        size_B = tensor.numel() * tensor.element_size()
        if self.whole or size_B <= PIECE_B:
            return (tensor,)
        number = min(MOST_PIECES, -(-size_B // PIECE_B))
        pieces: tuple[Tensor, ...] = tensor.split(-(-len(tensor) // number))
        return pieces

    def _settle(self) -> None:
        """Waits for the GPU, whose messages are only queued when `wait` returns."""
        if self.rank.backend == "nccl":
            import torch

            torch.cuda.synchronize()


def _world() -> ProcessGroup:
    """The default group itself: torch's own wrappers around its methods cost as much as a small message."""
    import torch.distributed as dist

    group = dist.group.WORLD
    if group is None:
        raise RuntimeError("internal: no process group")
    return group
