"""Sends, receives and additions alone: what a link, and cores that ranks share, are calibrated on.

In a program's round a rank sends and receives at the same time, and gloo's messages are a rendezvous: the receiver's
notice travels to the sender before the data leaves. An exchange of two ranks costs what a round costs; a one-way
ping-pong, whose receives wait long before, would not. Where ranks share cores a round costs the work of all of them, so
all shift a message around at once, through memory as large as the program's: copies out of the caches cost several
times as much as within.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lockstep.measure.execute.transfer import Transfers
from lockstep.measure.launch import Rank

if TYPE_CHECKING:
    from torch import Tensor

Array = npt.NDArray[Any]
Sample = tuple[int, float]
"""(bytes of a message, seconds of an exchange)."""
MOST_MEMORY_B = 1 << 26
"""Larger than the caches of a processor: more would not be slower."""


def exchange_samples(rank: Rank, sizes_B: Sequence[int], repeats: int = 15, warm_up: int = 3) -> list[Sample]:
    """Shortest seconds of an exchange between ranks 0 and 1, per size; the same list on every rank.

    All ranks call it together; the others wait. With one rank there is nothing to measure.
    """
    import torch
    import torch.distributed as dist

    if rank.ranks < 2:
        return []
    found: list[Sample] = []
    for size_B in sizes_B:
        dist.barrier()
        if rank.number > 1:
            continue
        ours = torch.zeros(size_B, dtype=torch.uint8, device=rank.device)
        theirs = torch.empty_like(ours)
        times_s = [_exchange_s(rank.number, ours, theirs) for _ in range(warm_up + repeats)]
        found.append((size_B, min(times_s[warm_up:])))
    shared = [found]
    dist.broadcast_object_list(shared, 0)
    return shared[0]


def _exchange_s(number: int, ours: Tensor, theirs: Tensor) -> float:
    """Seconds of one exchange with the other rank of the pair."""
    import torch.distributed as dist

    began = time.perf_counter()
    works = [dist.isend(ours, 1 - number), dist.irecv(theirs, 1 - number)]
    for work in works:
        if work is not None:
            work.wait()
    return time.perf_counter() - began


@dataclass(frozen=True, slots=True)
class Crowd:
    """What all ranks of one machine need when each does the same at once."""

    ranks: int
    shifts: tuple[Sample, ...]
    """(bytes of a message, seconds until each rank has sent one to the next)."""
    reduce_s_per_B: float
    """Seconds until each rank has added one byte."""

    def makespan_s(self, sizes_B: Array, reduced_B: float) -> float:
        """(sum over messages of the seconds of a shift of its size + bytes added gamma') / ranks.

        Between the sizes measured a shift is taken as linear; the kernel's copies are not from the first byte to the
        last.
        """
        measured_B, times_s = zip(*self.shifts, strict=True)
        messages_s = np.interp(sizes_B, measured_B, times_s).tolist()
        return math.fsum((*messages_s, reduced_B * self.reduce_s_per_B)) / self.ranks


def crowd(rank: Rank, sizes_B: Sequence[int], memory_B: int, repeats: int = 7) -> Crowd:
    """Median seconds of shifts of several sizes and of additions, all ranks at once; the same on every rank.

    `memory_B` of a rank that messages come from and go to, one after another; MOST_MEMORY_B at most.
    """
    import torch

    memory = torch.zeros((2, max(min(memory_B, MOST_MEMORY_B), *sizes_B)), dtype=torch.uint8, device=rank.device)
    transfers = Transfers(rank)
    found = []
    for size_B in sizes_B:
        places = memory[:, : memory.shape[1] // size_B * size_B].view(2, -1, size_B)

        def shift(turn: int, places: Tensor = places) -> None:
            ours, theirs = places[:, turn % places.shape[1]]
            works = transfers.post(ours, (rank.number + 1) % rank.ranks, turn)
            transfers.recv(theirs, (rank.number - 1) % rank.ranks, turn)
            transfers.wait(works)

        found.append((size_B, _together_s(rank, shift, repeats)))
    total, part = memory[:, : memory.shape[1] // 4 * 4].view(torch.float32)
    added_s = _together_s(rank, lambda turn: total.add_(part), repeats)
    return Crowd(rank.ranks, tuple(found), added_s / (4 * len(total)))


def _together_s(rank: Rank, act: Callable[[int], object], repeats: int, warm_up: int = 2) -> float:
    """Median seconds from the last rank's start to the last rank's end."""
    import torch
    import torch.distributed as dist

    stamps = torch.zeros((repeats, 2), dtype=torch.int64)
    for turn in range(-warm_up, repeats):
        dist.barrier()
        start_ns = rank.clock.now_ns()
        act(turn + warm_up)
        if turn >= 0:
            stamps[turn] = torch.tensor((start_ns, rank.clock.now_ns()))
    dist.all_reduce(stamps, dist.ReduceOp.MAX)
    return float((stamps[:, 1] - stamps[:, 0]).double().median()) / 1e9


def reduce_s_per_B(rank: Rank, elems: int = 1 << 20, repeats: int = 9) -> float:
    """Median seconds to add one byte of float32 to a buffer, on this rank."""
    import torch

    total, part = torch.zeros(elems, device=rank.device), torch.ones(elems, device=rank.device)
    times_s = []
    for _ in range(repeats):
        began = time.perf_counter()
        total.add_(part)
        if rank.backend == "nccl":
            torch.cuda.synchronize()
        times_s.append(time.perf_counter() - began)
    return statistics.median(times_s) / (4 * elems)
