"""What every rank on the rig does: runs programs turn by turn, all ranks starting at one moment of one clock."""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lockstep.base.records import dataclass
from lockstep.run.execute import Runner
from lockstep.run.execute.lanes import lanes_of
from lockstep.run.launch import Rank
from lockstep.run.machine import Load, LoadMeter, Machine, gather_sites, this_machine
from lockstep.simulate.program import Program, execute, extents

if TYPE_CHECKING:
    from torch import Tensor

PRIORITY = 10  # assumed: above ordinary processes, below the emulator
RESULTS = ("data", "output")
LARGEST = 997  # a prime, so that no chunk repeats; sums of 256 ranks stay exact in float32


@dataclass(frozen=True, slots=True)
class Part:
    """A program to run: `contributors` ranks begin with data of their own, the others with zeros; made by `part`."""

    title: str
    program: Program
    contributors: int
    results: tuple[int, ...]
    """Checksum of each rank's result buffers after the program."""


def part(title: str, program: Program, contributors: int) -> Part:
    """The program with the results to expect, from running it in this process."""
    extent = extents(program)["data"].tolist()
    data = [_data(rank < contributors, rank, elems) for rank, elems in enumerate(extent)]
    found = execute(program, {"data": data})
    results = [_checksum({name: found[name][rank] for name in RESULTS if name in found}) for rank in range(len(data))]
    return Part(title, program, contributors, tuple(results))


def _checksum(buffers: Mapping[str, object]) -> int:
    """Of the result buffers of one rank."""
    return zlib.crc32(b"".join(np.ascontiguousarray(buffers[name]).tobytes() for name in RESULTS if name in buffers))


@dataclass(frozen=True, slots=True)
class Turn:
    """One run of one part as one rank saw it, by the machine's monotonic clock."""

    part: int
    first_start_s: float
    last_end_s: float
    wrong: bool
    """Whether the result differs from that of the program run in one process."""


@dataclass(frozen=True, slots=True)
class Report:
    """What one rank did and where."""

    turns: tuple[Turn, ...]
    machine: Machine
    load: Load


def run_parts(rank: Rank, parts: Sequence[Part], repeats: int, warm_up: int, margin_s: float) -> Report:
    """Every part `repeats` times, in turns, after `warm_up` rounds of turns that do not count.

    `margin_s`: how long before a common start it is agreed on; longer than the agreement takes to travel.
    """
    import torch

    _become_prompt()
    meter = LoadMeter()
    scratch = _scratch(parts, rank.number)
    runners = [Runner(rank, lanes_of(one.program, rank.number), scratch, one.title, {}) for one in parts]
    turns = []
    for count in range((warm_up + repeats) * len(parts)):
        round_, number = divmod(count, len(parts))
        one = parts[number]
        own = {name: scratch[name][: int(extent[rank.number])] for name, extent in extents(one.program).items()}
        values = _data(rank.number < one.contributors, rank.number, len(own["data"]))
        own["data"].copy_(torch.from_numpy(values))
        _wait_for_common_start(rank, margin_s)
        spans = runners[number].run()
        if round_ >= warm_up:
            wrong = _checksum({name: tensor.numpy() for name, tensor in own.items()}) != one.results[rank.number]
            first, last = min(spans.start_ns, default=0), max(spans.end_ns, default=0)
            turns.append(Turn(number, first / 1e9, last / 1e9, wrong))
        rank.tell(count + 1)
    return Report(tuple(turns), this_machine(loopback=gather_sites(rank).loopback), meter.read())


def _become_prompt() -> None:
    """All threads of this process before ordinary ones, where that is allowed: links are measured, not the scheduler.

    Ranks on the rig mostly wait; without it their waking up costs as much as the CPU happens to be busy.
    """
    try:
        for thread in Path("/proc/self/task").iterdir():
            os.sched_setscheduler(int(thread.name), os.SCHED_RR, os.sched_param(PRIORITY))
    except PermissionError:
        return


def _wait_for_common_start(rank: Rank, margin_s: float) -> None:
    """Until a moment that rank 0 names; a barrier would let the ranks go up to one latency apart."""
    import torch
    import torch.distributed as dist

    dist.barrier()
    moment = torch.tensor([time.monotonic() + margin_s], dtype=torch.float64)
    dist.broadcast(moment, 0)
    time.sleep(max(0.0, float(moment[0]) - time.monotonic()))


def _data(contributes: bool, rank: int, elems: int) -> Any:
    values = np.arange(elems, dtype=np.float32) % LARGEST + rank
    return values if contributes else np.zeros_like(values)


def _scratch(parts: Sequence[Part], rank: int) -> dict[str, Tensor]:
    """Tensors of this rank, as large as the most demanding part uses them; parts run one after another."""
    import torch

    elems: dict[str, int] = {}
    for one in parts:
        for name, extent in extents(one.program).items():
            elems[name] = max(elems.get(name, 0), int(extent[rank]))
    return {name: torch.zeros(count, dtype=torch.float32) for name, count in elems.items()}
