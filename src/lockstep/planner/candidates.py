"""`Candidates`: the layouts of a space that keep the rules, with their memory: what no change of rates can change.

A search times them on one cluster. Searches on several clusters of as many devices can share them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lockstep.layout import OFFLOAD_PARAMETERS, Job, LayoutGrid, broken_rules, host_B, peak_B
from lockstep.planner.space import Space
from lockstep.types.arrays import Floats

Mask = NDArray[np.bool_]

MAX_GRID = 400_000
"""Layouts in one grid, with those that share their rows: bounds the search's own memory."""
WORLD = "world size"
DUPLICATE = "same as another layout"


@dataclass(frozen=True, slots=True)
class Sized:
    """A grid of layouts of one stage count and placement of layers, with their memory."""

    grid: LayoutGrid
    valid: Mask
    """Where layouts keep every rule; somewhere in each row."""
    memory_B: Floats
    """Bytes on the fullest rank."""
    host_B: Floats
    """Bytes that the rank with most offloaded states keeps in host memory."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """The layouts of one stage count."""

    grids: tuple[Sized, ...]
    rejected: Counter[str]
    """How many layouts each rule rejects."""


def candidates(job: Job, space: Space) -> Iterator[Candidates]:
    """The candidates of every stage count of `space`, each worked out when it is asked for."""
    for stages in space.pp:
        rejected: Counter[str] = Counter()
        grids: list[Sized] = []
        for part in space.parts(stages):
            grid = part.grid(stages, job.devices)
            valid = _valid(rejected, job, grid)
            if part.split:
                # What a device keeps of layers placed by hand is worked out for one layout at a time.
                alone = [layout.grid() for layout in grid.layouts(np.flatnonzero(valid))]
                grids += [_sized(job, one, np.ones((), dtype=bool)) for one in alone]
            else:
                grids += [_sized(job, grid.rows(rows), valid[rows]) for rows in _rows(valid)]
        yield Candidates(tuple(grids), rejected)


def _valid(rejected: Counter[str], job: Job, grid: LayoutGrid) -> Mask:
    """Layouts that keep every rule and are not the same as another; what each rule rejects first is counted.

    Degrees that do not multiply to the number of devices are no layouts of this cluster, and not counted.
    """
    rules = broken_rules(grid, job)
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


def duplicates(grid: LayoutGrid) -> Mask:
    """Layouts that differ from another in name only: ZeRO without replicas, HSDP with a single rank on one side,
    experts cut like dense layers."""
    replicas = grid.data_ranks
    alone = (grid.zero > 0) & (replicas == 1) & (grid.offload != OFFLOAD_PARAMETERS)
    if np.any(grid.etp):
        alone = alone | ((grid.etp > 0) & (grid.etp == grid.tp))
    mask: Mask = alone | ((grid.shard > 0) & ((grid.shard == 1) | (grid.shard == replicas)))
    return mask


def _rows(valid: Mask) -> Iterator[NDArray[np.intp]]:
    """Rows in which some layout keeps the rules, as many at a time as MAX_GRID allows."""
    rows = np.flatnonzero(valid.any(axis=(1, 2, 3)))
    at_once = max(1, MAX_GRID // max(1, valid[:1].size))
    for start in range(0, rows.size, at_once):
        yield rows[start : start + at_once]


def _sized(job: Job, grid: LayoutGrid, valid: Mask) -> Sized:
    return Sized(grid, valid, *(np.broadcast_to(size_B(job, grid), grid.shape) for size_B in (peak_B, host_B)))
