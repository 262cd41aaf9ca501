"""`Candidates`: the layouts of a space that keep the rules, with their memory: what no change of rates can change.

A search times them on one cluster. Searches on several clusters of as many devices can share them, and so can searches
of jobs that differ in nothing but the global batch: what depends on it has the batches as an axis of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from lockstep.base.records import dataclass, field, replace
from lockstep.base.types.arrays import Floats, Number
from lockstep.decide.planner.space import Space
from lockstep.describe.hardware import Cluster
from lockstep.price.layout import OFFLOAD_PARAMETERS, Job, LayoutGrid, broken_rules, host_B, peak_B
from lockstep.price.layout.rules import SCHEDULE
from lockstep.price.step import compose, step_time_s
from lockstep.simulate.parallel.pipeline import code

Mask = NDArray[np.bool_]
Cuts = Sequence[Sequence[int]] | None
"""Micro-batches that each of several jobs may have; all when None."""

AlsoHeld = Callable[[LayoutGrid], Number]
"""Bytes of the fullest rank of every layout of a grid at another moment than those of a step."""

MAX_GRID = 400_000
"""Layouts in one grid, with those that share their rows: bounds the search's own memory."""
WORLD = "world size"
DUPLICATE = "same as another layout"


@dataclass(slots=True, eq=False)
class Pricing:
    """Step times of a grid for all of its batches, worked out when the first of them is asked for."""

    job: Job
    grid: LayoutGrid
    _known: tuple[Cluster, Floats] | None = field(default=None, init=False)

    def step_times_s(self, cluster: Cluster) -> Floats:
        """Seconds [batch, ...]."""
        if self._known is None or self._known[0] is not cluster:
            seconds = step_time_s(compose(self.job, cluster, self.grid), self.grid)
            self._known = cluster, np.broadcast_to(seconds, (len(self.grid.batches), *self.grid.shape))
        return self._known[1]


@dataclass(frozen=True, slots=True)
class Sized:
    """A grid of layouts of one stage count and placement of layers, with their memory."""

    grid: LayoutGrid
    valid: Mask
    """Where layouts keep every rule; somewhere in each row, be it with another of several batches."""
    memory_B: Floats
    """Bytes on the fullest rank."""
    host_B: Floats
    """Bytes that the rank with most offloaded states keeps in host memory."""
    shared: tuple[Pricing, int] | None = None
    """Where several batches are priced together: how, and which of them this is."""

    def holding(self, also_B: AlsoHeld) -> Sized:
        """The same, with the memory of another moment where that is more."""
        more_B = np.maximum(self.memory_B, np.broadcast_to(also_B(self.grid), self.memory_B.shape))
        return replace(self, memory_B=more_B)

    def step_time_s(self, job: Job, cluster: Cluster) -> Floats:
        """Seconds of a step of every layout."""
        if self.shared is not None:
            pricing, place = self.shared
            seconds: Floats = pricing.step_times_s(cluster)[place]
            return seconds
        return np.broadcast_to(step_time_s(compose(job, cluster, self.grid), self.grid), self.grid.shape)


@dataclass(frozen=True, slots=True)
class Candidates:
    """The layouts of one stage count."""

    grids: tuple[Sized, ...]
    rejected: Counter[str]
    """How many layouts each rule rejects."""


def candidates(job: Job, space: Space) -> Iterator[Candidates]:
    """The candidates of every stage count of `space`, each worked out when it is asked for."""
    return (found for (found,) in candidates_of([job], space))


def candidates_of(jobs: Sequence[Job], space: Space, cuts: Cuts = None) -> Iterator[list[Candidates]]:
    """The same for each of several jobs that differ in nothing but their batch; none may place layers by hand."""
    for stages in space.pp:
        rejected: list[Counter[str]] = [Counter() for _ in jobs]
        grids: list[list[Sized]] = [[] for _ in jobs]
        for part in space.parts(stages):
            grid = part.grid(stages, jobs[0].devices)
            valid: Mask = np.stack([_valid(counts, job, grid) for counts, job in zip(rejected, jobs, strict=True)])
            if cuts is not None:
                valid &= np.stack([np.isin(grid.micro_batch, own) for own in cuts])
            if part.split:
                # What a device keeps of layers placed by hand is worked out for one layout at a time.
                alone = [layout.grid() for layout in grid.layouts(np.flatnonzero(valid))]
                found = [one for each in alone for one in _sized(jobs, each, np.ones((1,), dtype=bool))]
                grids[0] += found
                continue
            for rows in _rows(np.any(valid, axis=0), len(jobs)):
                for several, one in zip(grids, _sized(jobs, grid.rows(rows), valid[:, rows]), strict=True):
                    several.append(one)
        yield [Candidates(tuple(some), counts) for some, counts in zip(grids, rejected, strict=True)]


def _valid(rejected: Counter[str], job: Job, grid: LayoutGrid) -> Mask:
    """Layouts that keep every rule and are not the same as another; what each rule rejects first is counted.

    Degrees that do not multiply to the number of devices are no layouts of this cluster, and not counted.
    """
    rules = broken_rules(grid, job)
    rules[SCHEDULE] = rules[SCHEDULE] | unfilled(grid, job)
    valid = np.broadcast_to(~rules.pop(WORLD), grid.shape).copy()
    left = int(np.count_nonzero(valid))
    for key, broken in {**rules, DUPLICATE: duplicates(grid)}.items():
        if not broken.any():
            continue
        valid &= ~broken
        now = int(np.count_nonzero(valid))
        if now < left:
            rejected[key] += left - now
        left = now
    return valid


def unfilled(grid: LayoutGrid, job: Job) -> Mask:
    """Layouts that interleave fewer micro-batches than stages, which torch runs and Megatron Core does not."""
    mask: Mask = (grid.schedule == code("interleaved")) & (grid.microbatches(job.recipe.batch) < grid.pp)
    return mask


def duplicates(grid: LayoutGrid) -> Mask:
    """Layouts that differ from another in name only: ZeRO without replicas, HSDP with a single rank on one side,
    experts cut like dense layers."""
    replicas = grid.data_ranks
    alone = (grid.zero > 0) & (replicas == 1) & (grid.offload != OFFLOAD_PARAMETERS)
    if np.any(grid.etp):
        alone = alone | ((grid.etp > 0) & (grid.etp == grid.tp))
    mask: Mask = alone | ((grid.shard > 0) & ((grid.shard == 1) | (grid.shard == replicas)))
    return mask


def _rows(valid: Mask, jobs: int) -> Iterator[NDArray[np.intp]]:
    """Rows in which some layout keeps the rules, as many at a time as MAX_GRID allows for so many jobs."""
    rows = np.flatnonzero(valid.any(axis=(1, 2, 3)))
    at_once = max(1, MAX_GRID // max(1, jobs * valid[:1].size))
    for start in range(0, rows.size, at_once):
        yield rows[start : start + at_once]


def _sized(jobs: Sequence[Job], grid: LayoutGrid, valid: Mask) -> list[Sized]:
    """A grid for each of the jobs, where its layouts are `valid` [job, ...]."""
    if len(jobs) == 1:
        memory_B, on_host_B = (np.broadcast_to(size_B(jobs[0], grid), grid.shape) for size_B in (peak_B, host_B))
        return [Sized(grid, valid[0], memory_B, on_host_B)]
    every = replace(grid, batches=tuple(job.recipe.batch for job in jobs))
    pricing, shape = Pricing(jobs[0], every), (len(jobs), *grid.shape)
    memory_B, on_host_B = (np.broadcast_to(size_B(jobs[0], every), shape) for size_B in (peak_B, host_B))
    return [Sized(grid, valid[at], memory_B[at], on_host_B[at], (pricing, at)) for at in range(len(jobs))]
