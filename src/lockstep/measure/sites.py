"""`Sites`: which ranks read the same clock and which are in the same network, asked once at the begin of a run."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from lockstep.measure.launch import Rank

NETWORK = Path("/proc/self/ns/net")


@dataclass(frozen=True, slots=True)
class Sites:
    """One entry per rank."""

    clocks: tuple[str, ...]
    """Equal for ranks that read the same clock."""
    networks: tuple[str, ...]
    """Equal for ranks that see the same interfaces."""

    @property
    def loopback(self) -> bool:
        """Whether all ranks talk within one machine, without a network of their own."""
        return len(set(self.networks)) == 1

    def strangers(self) -> tuple[int, ...]:
        """Ranks that do not read rank 0's clock."""
        return tuple(rank for rank, clock in enumerate(self.clocks) if clock != self.clocks[0])


def gather_sites(rank: Rank) -> Sites:
    """The sites of all ranks, on every rank. All ranks of the process group call it together."""
    import torch.distributed as dist

    clock = rank.clock.name(rank.number)
    network = f"{clock} {os.readlink(NETWORK) if NETWORK.exists() else ''}"
    found: list[tuple[str, str]] = [(clock, network)] * rank.ranks
    dist.all_gather_object(found, (clock, network))
    return Sites(tuple(clock for clock, _ in found), tuple(network for _, network in found))
