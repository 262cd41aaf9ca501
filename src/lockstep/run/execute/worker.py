"""The worker of `execute`: one rank runs its lanes some times, and checks what its buffers hold.

What a collective must leave behind is said by torch's own collective on the same tensors (`built_in`). Shares
are those of the programs: of N elements in n shares the first N mod n are larger by one. torch wants equal shares, so
shorter ones are padded on the way. `parameter-server` is an all-reduce for its workers; gossip and the asynchronous
server have no counterpart in torch."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Array
from lockstep.run.execute.clock import Alignment, compare_clocks
from lockstep.run.execute.cores import sizes_to_time, start_together, time_cores
from lockstep.run.execute.exchange import Sample, exchange_samples, reduce_s_per_B
from lockstep.run.execute.lanes import lanes_of
from lockstep.run.execute.profile import profile_runs
from lockstep.run.execute.runner import Runner, Spans
from lockstep.run.launch import Rank
from lockstep.run.machine import Load, LoadMeter, Machine, gather_sites, this_machine
from lockstep.simulate.collectives import algorithms, get, ops
from lockstep.simulate.collectives.op import op_of
from lockstep.simulate.collectives.rounds import cut
from lockstep.simulate.play import SharedCores
from lockstep.simulate.program import Kind, Program, execute, extents

if TYPE_CHECKING:
    from torch import Tensor
    from torch.distributed import ProcessGroup

Promise = tuple[str, int, "Tensor"]
"""(buffer, first element, values) that must hold afterwards."""

ELEMENT_B = 4
MOST_REPLAYED_B = 64e6
"""Buffers of all ranks together that every rank also runs in its own process, as a second check."""


def built_in(op: str, data: Tensor, number: int, ranks: int, group: ProcessGroup | None) -> list[Promise]:
    """The promises of `op` for rank `number` of `ranks`, from `data` before the collective. All members call it."""
    import torch.distributed as dist

    own = data.clone()
    match op:
        case "all-reduce" | "parameter-server":
            dist.all_reduce(own, group=group)
            return [("data", 0, own)]
        case "reduce":
            dist.reduce(own, 0, group=group)
            return [("data", 0, own)] if number == 0 else []
        case "broadcast":
            dist.broadcast(own, 0, group=group)
            return [("data", 0, own)]
        case "all-to-all":
            return [("output", 0, all_to_all(data, number, ranks, group))]
    shares = _Shares(data, ranks)
    match op:
        case "reduce-scatter":
            share = shares.empty()
            dist.reduce_scatter(share, shares.padded(), group=group)
            return shares.promise(number, share)
        case "scatter":
            share = shares.empty()
            dist.scatter(share, shares.padded() if number == 0 else None, 0, group=group)
            return shares.promise(number, share)
        case "gather":
            gathered = [shares.empty() for _ in range(ranks)]
            dist.gather(shares.padded()[number], gathered if number == 0 else None, 0, group=group)
            return [row for i in range(ranks) for row in shares.promise(i, gathered[i])] if number == 0 else []
        case "all-gather":
            gathered = [shares.empty() for _ in range(ranks)]
            dist.all_gather(gathered, shares.padded()[number], group=group)
            return [row for i in range(ranks) for row in shares.promise(i, gathered[i])]
    raise BadInput(f"torch has no built-in collective for {op}")


def all_to_all(data: Tensor, number: int, ranks: int, group: ProcessGroup | None) -> Tensor:
    """What all-to-all leaves in `output`: one block from every rank, all of the size of this rank's own share."""
    import torch.distributed as dist

    edges = cut(0, len(data), ranks).tolist()
    sizes = [high - low for low, high in itertools.pairwise(edges)]
    received = data.new_empty(sizes[number] * ranks)
    dist.all_to_all_single(received, data, [sizes[number]] * ranks, sizes, group=group)
    return received


class _Shares:
    """The shares of a buffer, padded to one size."""

    def __init__(self, data: Tensor, ranks: int) -> None:
        self.data = data
        self.edges: list[int] = cut(0, len(data), ranks).tolist()
        self.largest = max(1, self.edges[1] - self.edges[0])

    def empty(self) -> Tensor:
        """Room for one share."""
        return self.data.new_zeros(self.largest)

    def padded(self) -> list[Tensor]:
        """Every share, with zeros to the largest."""
        shares = []
        for low, high in itertools.pairwise(self.edges):
            share = self.empty()
            share[: high - low] = self.data[low:high]
            shares.append(share)
        return shares

    def promise(self, index: int, share: Tensor) -> list[Promise]:
        """Share `index` at its place."""
        low, high = self.edges[index], self.edges[index + 1]
        return [("data", low, share[: high - low])]


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
    profile: str | None = None
    """Folder of profiles, which take further runs."""

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
    load = meter.read()
    wrong, checks = _check(rank, work, buffers, before) if work.elems else (0, ())
    if work.profile is not None:
        profile_runs(runner, work.profile, work.op)
    runner.close()
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
