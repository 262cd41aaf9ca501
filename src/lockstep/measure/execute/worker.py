"""The worker of `execute`: one rank runs its lanes some times, and checks what its buffers hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lockstep.collectives import algorithms, get, ops
from lockstep.collectives.op import op_of
from lockstep.measure.execute.clock import Alignment, compare_clocks
from lockstep.measure.execute.cores import sizes_to_time, start_together, time_cores
from lockstep.measure.execute.exchange import Sample, exchange_samples, reduce_s_per_B
from lockstep.measure.execute.lanes import lanes_of
from lockstep.measure.execute.reference import built_in
from lockstep.measure.execute.runner import Runner, Spans
from lockstep.measure.launch import Rank
from lockstep.measure.machine import Load, LoadMeter, Machine, this_machine
from lockstep.measure.sites import gather_sites
from lockstep.program import Kind, Program, execute, extents
from lockstep.simulate import SharedCores

if TYPE_CHECKING:
    from torch import Tensor
    from torch.distributed import ProcessGroup

Array = npt.NDArray[Any]
ELEMENT_B = 4
MOST_REPLAYED_B = 64e6
"""Buffers of all ranks together that every rank also runs in its own process, as a second check."""


@dataclass(frozen=True, slots=True)
class Work:
    """What the ranks are to do."""

    program: Program
    op: str
    algorithm: str
    members: int
    """Ranks of the collective; helpers such as parameter servers follow."""
    elems: int
    """float32 elements of `data` on every rank; 0 for a program without data."""
    seed: int
    warm_up: int
    repeats: int
    calibrate: bool = False
    """Whether to time messages and additions by themselves first."""

    @property
    def title(self) -> str:
        """Name of its points."""
        return "_".join((self.op, self.algorithm)).replace("-", "_").strip("_")

    @property
    def has_built_in(self) -> bool:
        """Whether torch has a collective with the same result."""
        known = self.op in ops() and self.algorithm in algorithms(self.op)
        return op_of(self.op).built_in and not (known and get(self.op, self.algorithm).stale)


@dataclass(frozen=True, slots=True)
class Report:
    """What one rank did."""

    runs: tuple[Spans, ...]
    clock: Alignment
    wrong: int
    """Elements that differ from torch's collective or from the program run in process."""
    checks: tuple[str, ...]
    samples: tuple[Sample, ...]
    reduce_s_per_B: float
    """Gamma: seconds to add one received byte; 0 when no link was calibrated."""
    cores: SharedCores | None
    """What messages and additions need on the one machine of all ranks; None elsewhere, or when not calibrated."""
    machine: Machine
    load: Load


def run_rank(rank: Rank, work: Work) -> Report:
    """Body of a rank: calibrates, warms up, runs, checks."""
    meter, sites = LoadMeter(), gather_sites(rank)
    one_machine = sites.loopback and rank.backend == "gloo"
    sizes_B = work.program.size_B[work.program.kind == Kind.SEND]
    cores, samples, reduce_s = None, [], 0.0
    if work.calibrate and one_machine:
        cores = time_cores(rank, sizes_to_time(sizes_B), ELEMENT_B * work.elems)
    elif work.calibrate:
        samples, reduce_s = exchange_samples(rank, int(sizes_B.max())), reduce_s_per_B(rank)
    before = initial(work)
    buffers = _buffers(rank, work, before)
    runner = Runner(rank, lanes_of(work.program, rank.number), buffers, work.title, _groups(work.program))
    runs: list[Spans] = []
    earlier = compare_clocks(rank, sites)
    for turn in range(work.warm_up + work.repeats):
        if work.elems:
            buffers["data"].copy_(_tensor(before[rank.number]))
        start_together()
        spans = runner.run()
        if turn >= work.warm_up:
            runs.append(spans)
        if rank.number == 0:
            rank.tell(turn + 1)
    clock = Alignment(earlier, compare_clocks(rank, sites))
    runner.close()
    load = meter.read()
    wrong, checks = _check(rank, work, buffers, before) if work.elems else (0, ())
    machine = this_machine(loopback=sites.loopback)
    return Report(tuple(runs), clock, wrong, checks, tuple(samples), reduce_s, cores, machine, load)


def initial(work: Work) -> list[Array]:
    """`data` of every rank before: small whole numbers, so that sums are exact in any order; zeros for helpers."""
    made = []
    for number in range(work.program.ranks):
        generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence([work.seed, number])))
        values = generator.integers(-8, 9, work.elems).astype(np.float32)
        made.append(values if number < work.members else np.zeros_like(values))
    return made


def _tensor(values: Array) -> Tensor:
    import torch

    return torch.from_numpy(values)


def _buffers(rank: Rank, work: Work, before: list[Array]) -> dict[str, Tensor]:
    """`data`, and scratch as large as the program uses it, filled with NaN."""
    import torch

    sizes = {name: int(extent[rank.number]) for name, extent in extents(work.program).items() if name != "data"}
    buffers = {name: torch.full((size,), torch.nan, device=rank.device) for name, size in sizes.items()}
    if work.elems:
        buffers["data"] = _tensor(before[rank.number]).clone().to(rank.device)
    return buffers


@cache
def group_of(members: tuple[int, ...]) -> ProcessGroup | None:
    """The process group of some ranks; None, the default group, for all. Every rank must ask in the same order.

    Kept for the life of the process: a new group costs connections between all of its members.
    """
    import torch.distributed as dist

    return None if len(members) == dist.get_world_size() else dist.new_group(list(members))


def _groups(program: Program) -> dict[int, ProcessGroup | None]:
    """The process group of every barrier."""
    barriers = np.unique(program.group[program.kind == Kind.BARRIER]).tolist()
    members = {number: tuple(np.unique(program.rank[program.group == number]).tolist()) for number in barriers}
    return {number: group_of(ranks) for number, ranks in members.items()}


def _check(rank: Rank, work: Work, buffers: Mapping[str, Tensor], before: list[Array]) -> tuple[int, tuple[str, ...]]:
    """Elements that are not what torch's own collective gives, and not what the program gives in one process."""
    wrong, checks = 0, []
    if work.has_built_in:
        group = group_of(tuple(range(work.members)))
        if rank.number < work.members:
            data = _tensor(before[rank.number]).to(rank.device)
            for name, start, expected in built_in(work.op, data, rank.number, work.members, group):
                found = buffers[name][start : start + len(expected)]
                wrong += int((found != expected).sum())
        checks.append("torch's own collective")
    if not checks or ELEMENT_B * work.elems * work.program.ranks <= MOST_REPLAYED_B:
        replayed = execute(work.program, {"data": before})
        for name in ("data", "output"):
            if name in replayed:
                expected_values = replayed[name][rank.number]
                found_values = buffers[name][: len(expected_values)].cpu().numpy()
                known = ~np.isnan(expected_values)
                wrong += int((found_values[known] != expected_values[known]).sum())
        checks.append("the program run in one process")
    return wrong, tuple(checks)
