"""One message over torch.distributed: a large one travels in pieces and is used piece by piece.

As inside MPI and gloo, pieces let the receiver work on what has arrived while the rest is on its way, in the caches.
The sender offers all pieces at once, the receiver asks for a few at a time: gloo sends what was asked for only. A
message stays one message: it starts with its first piece, ends with its last, and is counted once.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Sequence
from itertools import cycle
from typing import TYPE_CHECKING

from lockstep.base.records import dataclass
from lockstep.run.launch import Host, Rank
from lockstep.run.machine import scheduling_class

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from torch.distributed import ProcessGroup, Work

MOST_PIECES = 1 << 13
"""Tags of a message's pieces follow one another; larger messages have larger pieces."""


@dataclass(frozen=True, slots=True)
class Cut:
    """How messages travel: in pieces of about `piece_B`, of which a receiver asks for `in_flight` at a time."""

    piece_B: float
    in_flight: int = MOST_PIECES
    crowded: bool = False
    """Whether ranks share cores, and nothing but memory lies between them."""


OWN_CORE = Cut(1 << 19)
"""Fitted: the fastest of 256 KiB to 8 MiB for a ring of 16 MB on two ranks with a core each."""
SHARED_CORES = Cut(float("inf"), crowded=True)
"""Measured on 4 ranks and 2 cores: a rank that is woken takes a core at once, so each piece would cost two switches."""
SHARED_CORES_IN_TURN = Cut(1 << 19, in_flight=2, crowded=True)
"""In the real-time classes a woken rank waits for its turn, and what comes meanwhile lies in the kernel's buffers; more
than the caches hold is slower there. Fitted: the fastest of 256 KiB to 4 MiB, 1 to 3 at a time, for that ring."""
IN_TURN = ("fifo", "rr")
SHARED_CORES_OWN_NETWORK = Cut(float("inf"))
"""Asking piece by piece would cost a round trip for each."""


class Transfers:
    """Sends and receives of one rank; `number` is the message's among all of the program."""

    def __init__(self, rank: Rank) -> None:
        self.rank = rank
        self.cut = cut_for(rank)
        self._kept: dict[tuple[int, torch.dtype], Tensor] = {}

    def post(self, tensor: Tensor, peer: int, number: int) -> Sequence[Work]:
        """Sends the tensor, which must not change until the works have been waited for."""
        group, tag = _world(), number * MOST_PIECES
        return [group.send([piece], peer, tag + i) for i, piece in enumerate(self._pieces(tensor))]

    def wait(self, works: Sequence[Work]) -> None:
        """Until a posted message has left. Each is waited for once: a second wait on a finished gloo send hangs."""
        # Pieces leave in order: with the last one first, the thread is woken once.
        for work in reversed(works):
            work.wait()
        self._settle()

    def recv(self, tensor: Tensor, peer: int, number: int) -> None:
        """Receives into the tensor."""
        for _ in self._arrivals(self._pieces(tensor), peer, number):
            pass
        self._settle()

    def recv_added(self, total: Tensor, peer: int, number: int) -> None:
        """Adds what is received to the tensor, piece by piece as it comes."""
        pieces = self._pieces(total)
        scratch = cycle(self._scratch(pieces))
        places = [place[: len(piece)] for piece, place in zip(pieces, scratch, strict=False)]
        for i in self._arrivals(places, peer, number):
            self._settle()
            pieces[i].add_(places[i])

    def _arrivals(self, places: Sequence[Tensor], peer: int, number: int) -> Iterator[int]:
        """Receives into places that may be used again once `in_flight` further ones are asked for; each, once there."""
        group, tag, ahead = _world(), number * MOST_PIECES, self.cut.in_flight
        works = [group.recv([place], peer, tag + i) for i, place in enumerate(places[:ahead])]
        for i in range(len(places)):
            works[i].wait()
            yield i
            if i + ahead < len(places):
                works.append(group.recv([places[i + ahead]], peer, tag + i + ahead))

    def _scratch(self, pieces: Sequence[Tensor]) -> Sequence[Tensor]:
        """Room for as many pieces as are in flight at a time, of this thread and kind, kept."""
        like, count = pieces[0], min(len(pieces), self.cut.in_flight)
        key = threading.get_ident(), like.dtype
        kept = self._kept.get(key)
        if kept is None or len(kept) < count * len(like):
            kept = self._kept[key] = like.new_empty(count * len(like))
        return kept[: count * len(like)].split(len(like)) if len(like) else (like,)

    def _pieces(self, tensor: Tensor) -> tuple[Tensor, ...]:
        """The tensor in consecutive pieces, the same on both sides."""
        size_B = tensor.numel() * tensor.element_size()
        if size_B <= self.cut.piece_B:
            return (tensor,)
        number = min(MOST_PIECES, math.ceil(size_B / self.cut.piece_B))
        pieces: tuple[Tensor, ...] = tensor.split(-(-len(tensor) // number))
        return pieces

    def _settle(self) -> None:
        """Waits for the GPU, whose messages are only queued when `wait` returns."""
        if self.rank.backend == "nccl":
            import torch

            torch.cuda.synchronize()


def cut_for(rank: Rank) -> Cut:
    """How this rank's messages travel; the same on all ranks, which inherit the launcher's scheduling class."""
    if rank.backend != "gloo" or rank.cores is None or rank.ranks <= rank.cores:
        return OWN_CORE
    if rank.host != Host():
        return SHARED_CORES_OWN_NETWORK
    return SHARED_CORES_IN_TURN if scheduling_class() in IN_TURN else SHARED_CORES


def _world() -> ProcessGroup:
    """The default group itself: torch's own wrappers around its methods cost as much as a small message."""
    import torch.distributed as dist

    group = dist.group.WORLD
    if group is None:
        raise RuntimeError("internal: no process group")
    return group
