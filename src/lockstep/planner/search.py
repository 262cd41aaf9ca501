"""The search: every layout of a space scored with the formulas of `estimate`, all of a stage count at once.

Exact: the best layouts, the Pareto front and the counts are those of scoring one layout after another. Three things
are skipped, all provably without effect on the answer:
    a row of a grid in which every layout breaks a rule is counted, and not scored;
    a grid in which no layout that keeps the rules fits in memory is not timed (it holds nothing to choose from);
    a number of devices whose perfect-compute bound misses the deadline is not searched (no layout is faster).
Ties in step time go to less memory, then to the layout that comes first in the space.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lockstep.hardware import Cluster
from lockstep.layout import Job, Layout, LayoutGrid, host_capacity_B
from lockstep.planner.candidates import Candidates, Mask, Sized, candidates
from lockstep.planner.space import Space
from lockstep.step import compose, step_time_s
from lockstep.types.arrays import Floats

Progress = Callable[[int, int], None]
"""Called with (done, total)."""
MEMORY = "memory"
HOST_MEMORY = "host memory"
NEAR_FRAC = 0.03
"""Slower than the fastest by at most this share, a layout is as good as it as far as predictions can tell."""
MOST_NEAR = 48
"""Of these layouts, how many are looked at again."""
QUICK = 64
"""The fastest 1/QUICK of the layouts are sorted with those that need less memory; the others are only compared."""


@dataclass(frozen=True, slots=True, order=True)
class Scored:
    """One layout's score; orders by time, then memory, then place in the space."""

    step_time_s: float
    memory_B: float
    place: tuple[int, int, int]
    layout: Layout = field(compare=False)


@dataclass(frozen=True, slots=True)
class Miss:
    """A layout that keeps the rules and does not fit."""

    memory_B: float
    layout: Layout


@dataclass(slots=True)
class Findings:
    """What a search has found so far."""

    best: list[Scored] = field(default_factory=list)
    near: list[Scored] = field(default_factory=list)
    """Feasible layouts at most NEAR_FRAC slower than the fastest: the MOST_NEAR fastest."""
    front: list[Scored] = field(default_factory=list)
    """Feasible layouts that no other beats in both step time and memory, fastest first."""
    evaluated: int = 0
    """Layouts that keep the rules, all of them scored for memory."""
    feasible: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    nearest_miss: Miss | None = None
    """The layout that exceeds the memory by least."""
    host_miss: Miss | None = None
    """Of those that fit on the device, the one whose offloaded states exceed a rank's share of host memory by least."""
    complete: bool = True

    def fastest_within(self, memory_B: float) -> Scored | None:
        """The fastest layout that needs at most `memory_B`, itself at most what was searched; None where none does."""
        return next((one for one in self.front if one.memory_B <= memory_B), None)


def search(
    job: Job,
    cluster: Cluster,
    space: Space,
    *,
    top: int = 5,
    prune: bool = True,
    progress: Progress | None = None,
    among: Iterable[Candidates] | None = None,
) -> Findings:
    """Scores every layout of `space`.

    `progress(done, total)` is called after each stage count; Ctrl-C keeps what is known. `among` are the candidates of
    `job` and `space`, where several searches share them.
    """
    found, total = Findings(), len(space.pp)
    try:
        for done, some in enumerate(candidates(job, space) if among is None else among):
            found.rejected += some.rejected
            for part, sized in enumerate(some.grids):
                _score(found, job, cluster, sized, (done, part), top, prune)
            if progress is not None:
                progress(done + 1, total)
    except KeyboardInterrupt:
        found.complete = False
    return found


def _score(
    found: Findings, job: Job, cluster: Cluster, sized: Sized, place: tuple[int, int], top: int, prune: bool
) -> None:
    """Adds the layouts of one grid that keep the rules to `found`."""
    grid, valid, memory_B = sized.grid, sized.valid, sized.memory_B
    found.evaluated += int(np.count_nonzero(valid))
    held = valid & (memory_B <= cluster.device.memory_B)
    if missed := int(np.count_nonzero(valid)) - int(np.count_nonzero(held)):
        found.rejected[MEMORY] += missed
        found.nearest_miss = _nearer(found.nearest_miss, grid, valid & ~held, memory_B)
    fits = held & (sized.host_B <= host_capacity_B(cluster))
    feasible = int(np.count_nonzero(fits))
    found.feasible += feasible
    if missed := int(np.count_nonzero(held)) - feasible:
        found.rejected[HOST_MEMORY] += missed
        found.host_miss = _nearer(found.host_miss, grid, held & ~fits, sized.host_B)
    if not feasible and prune:
        return
    seconds = np.broadcast_to(step_time_s(compose(job, cluster, grid), grid), grid.shape)
    chosen = np.flatnonzero(fits)
    _keep(found, grid, chosen, seconds.reshape(-1)[chosen], memory_B.reshape(-1)[chosen], place, top)


def _nearer(known: Miss | None, grid: LayoutGrid, missed: Mask, memory_B: Floats) -> Miss:
    """The layout that exceeds a memory by least: the one known, or one of `missed`."""
    over = np.where(missed, memory_B, np.inf)
    flat = int(np.argmin(over))
    least_B = float(over.reshape(-1)[flat])
    if known is not None and known.memory_B <= least_B:
        return known
    return Miss(least_B, grid.layouts(np.array([flat]))[0])


def _keep(
    found: Findings,
    grid: LayoutGrid,
    flat: NDArray[np.intp],
    seconds: Floats,
    memory_B: Floats,
    place: tuple[int, int],
    top: int,
) -> None:
    """Merges the feasible layouts at `flat` into the best, those near it and the front."""
    if not flat.size:
        return
    kept = _promising(seconds, memory_B, max(top, MOST_NEAR))
    flat, seconds, memory_B = flat[kept], seconds[kept], memory_B[kept]
    order = np.lexsort((memory_B, seconds))
    front = order[_improves(memory_B[order])]

    def scored(picked: NDArray[np.intp]) -> list[Scored]:
        layouts = zip(picked.tolist(), grid.layouts(flat[picked]), strict=True)
        return [Scored(float(seconds[i]), float(memory_B[i]), (*place, int(flat[i])), one) for i, one in layouts]

    quickest_s = min(one.step_time_s for one in (*found.best[:1], *scored(order[:1])))
    close = order[: np.searchsorted(seconds[order], quickest_s * (1 + NEAR_FRAC), "right")][:MOST_NEAR]
    merged = sorted(found.near + scored(close))[:MOST_NEAR]
    found.near = [one for one in merged if one.step_time_s <= merged[0].step_time_s * (1 + NEAR_FRAC)]
    found.best = sorted(found.best + scored(order[:top]))[:top]
    merged = sorted(found.front + scored(front))
    found.front = [merged[i] for i in np.flatnonzero(_improves(np.array([one.memory_B for one in merged])))]


def _promising(seconds: Floats, memory_B: Floats, top: int) -> Mask:
    """The quickest, `top` or more, and what needs less memory than all of them: no other is best or on the front."""
    if seconds.size <= top:
        return np.ones(seconds.size, dtype=bool)
    rank = max(top, seconds.size // QUICK) - 1
    quick: Mask = seconds <= np.partition(seconds, rank)[rank]
    return quick | (memory_B < np.min(memory_B[quick]))


def _improves(memory_B: Floats) -> Mask:
    """Where a layout needs less memory than every faster one."""
    if memory_B.size == 0:
        return np.zeros(0, dtype=bool)
    before = np.concatenate([[np.inf], np.minimum.accumulate(memory_B)[:-1]])
    mask: Mask = memory_B < before
    return mask
