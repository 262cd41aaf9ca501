"""`Machine`: what a measurement ran on, recorded with it: cores, scheduling class, TCP congestion control, other load.

A measurement without these cannot be compared with another one. On loopback with more ranks than cores the ranks
take turns on the processors, so times are those of the CPU and not of any network; `warnings` says so.

`Sites`: which ranks read the same clock and which are in the same network, asked once when a run begins.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Sequence
from pathlib import Path

from lockstep.base.records import dataclass, replace
from lockstep.base.types.plain import Json, picked
from lockstep.run.launch import Rank
from lockstep.run.launch.launch import usable_cores
from lockstep.run.launch.rank import boot

BUSY_CORES = 0.2
"""Cores that others may use before a measurement says so; assumed."""
CONGESTION = Path("/proc/sys/net/ipv4/tcp_congestion_control")
NETWORK = Path("/proc/self/ns/net")


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine during a measurement; None is unknown."""

    host: str
    processor: str
    cores: int
    """Cores that this process may use."""
    scheduling: str
    """Class of the scheduler: other (the default), fifo, rr, batch, idle, deadline."""
    congestion_control: str | None
    torch: str
    loopback: bool
    """Whether all ranks talk within this machine, without a network of their own."""
    foreign_cores: float | None = None
    """Cores that other processes used meanwhile, on average."""

    def warnings(self, ranks: int) -> tuple[str, ...]:
        """What a reader must know before using the numbers."""
        said = []
        if self.loopback and ranks > self.cores:
            said.append(f"{ranks} ranks share {self.cores} cores: this measures the CPU, not a network")
        elif self.loopback and ranks > 1:
            said.append("loopback: memory copies and the kernel's TCP, not a network")
        if self.foreign_cores is not None and self.foreign_cores > BUSY_CORES:
            said.append(f"other processes used {self.foreign_cores:.2g} cores meanwhile")
        return tuple(said)

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self)


def this_machine(*, loopback: bool = True) -> Machine:
    """The machine as this process sees it, inside its network namespace."""
    import torch

    return Machine(
        host=platform.node(),
        processor=_processor(),
        cores=usable_cores(),
        scheduling=scheduling_class(),
        congestion_control=CONGESTION.read_text(encoding="ascii").strip() if os.path.exists(CONGESTION) else None,
        torch=str(torch.__version__),
        loopback=loopback,
    )


def _processor() -> str:
    """The model that /proc/cpuinfo names, else the architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())


def scheduling_class() -> str:
    """Class of the scheduler that this process is in, in the words of chrt; `unknown` where nothing tells."""
    names = ("other", "fifo", "rr", "batch", "idle", "deadline")
    known = {getattr(os, f"SCHED_{name.upper()}", None): name for name in names}
    return known.get(os.sched_getscheduler(0), "unknown") if hasattr(os, "sched_getscheduler") else "unknown"


@dataclass(frozen=True, slots=True)
class Load:
    """Processor time while one rank measured."""

    wall_s: float
    own_s: float
    """Of this process."""
    busy_s: float | None
    """Of the whole machine; None where /proc does not tell."""
    machine: str
    """The same text for processes of one machine."""


class LoadMeter:
    """Counts processor time from its making on."""

    def __init__(self) -> None:
        self._began = time.monotonic(), time.process_time(), _busy_s()

    def read(self) -> Load:
        """What has been used since."""
        wall, own, busy = self._began
        now = _busy_s()
        used = None if now is None or busy is None else now - busy
        return Load(time.monotonic() - wall, time.process_time() - own, used, boot())


def _busy_s() -> float | None:
    """Processor seconds of the whole machine that were neither idle nor waiting for a disk nor stolen."""
    try:
        first = Path("/proc/stat").read_text(encoding="ascii").partition("\n")[0]
    except OSError:
        return None
    user, nice, system, _idle, _iowait, irq, softirq = (int(word) for word in first.split()[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def with_load(machine: Machine, loads: Sequence[Load]) -> Machine:
    """The machine with the cores that processes other than its ranks used, by the first rank's clock."""
    first = loads[0]
    if first.busy_s is None or first.wall_s <= 0:
        return machine
    foreign_s = first.busy_s - sum(load.own_s for load in loads if load.machine == first.machine)
    return replace(machine, foreign_cores=max(0.0, foreign_s / first.wall_s))


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
    network = f"{clock} {os.readlink(NETWORK) if os.path.exists(NETWORK) else ''}"
    found: list[tuple[str, str]] = [(clock, network)] * rank.ranks
    dist.all_gather_object(found, (clock, network))
    return Sites(tuple(clock for clock, _ in found), tuple(network for _, network in found))
