"""Clocks of ranks on one scale: ranks of one machine share the monotonic clock, others measure their offset.

Offset of a rank against rank 0 by ping-pong: o = (t1 + t3) / 2 - t2 for sending at t1, the other's clock t2, and
receiving at t3; the exchange with the shortest round trip counts (Cristian, "Probabilistic clock synchronization",
Distributed Computing 3, 1989). Its error is at most half of that round trip.
"""

from __future__ import annotations

import time
from pathlib import Path

from lockstep.measure.launch import Rank

EXCHANGES = 32
BOOT = Path("/proc/sys/kernel/random/boot_id")


def offset_ns(rank: Rank) -> int:
    """Nanoseconds to add to this rank's monotonic clock to read rank 0's. All ranks call it together."""
    import torch.distributed as dist

    machine = BOOT.read_text(encoding="ascii") if BOOT.exists() else str(rank.number)
    machines: list[str] = [""] * rank.ranks
    dist.all_gather_object(machines, machine)
    offset = 0
    for other in range(1, rank.ranks):
        if machines[other] != machines[0] and rank.number in (0, other):
            offset = _measured_ns(rank, other)
    return offset


def _measured_ns(rank: Rank, other: int) -> int:
    """The offset of `other`, on `other`; rank 0 answers with its clock."""
    import torch
    import torch.distributed as dist

    stamp = torch.zeros(1, dtype=torch.int64, device=rank.device)
    best_round_ns, offset = 0, 0
    for _ in range(EXCHANGES):
        if rank.number == 0:
            dist.recv(stamp, other)
            stamp[0] = time.monotonic_ns()
            dist.send(stamp, other)
            continue
        sent = time.monotonic_ns()
        dist.send(stamp, 0)
        dist.recv(stamp, 0)
        received = time.monotonic_ns()
        if not best_round_ns or received - sent < best_round_ns:
            best_round_ns = received - sent
            offset = int(stamp[0]) - (sent + received) // 2
    return offset
