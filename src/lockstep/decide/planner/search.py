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
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from lockstep.base.records import dataclass, field, replace
from lockstep.base.types.arrays import Floats
from lockstep.base.types.brief import Brief
from lockstep.base.types.progress import Progress
from lockstep.decide.planner.candidates import AlsoHeld, Candidates, Cuts, Mask, Sized, candidates, candidates_of
from lockstep.decide.planner.interval import Ends
from lockstep.decide.planner.space import Space
from lockstep.describe.hardware import Cluster
from lockstep.price.layout import Job, Layout, LayoutGrid, host_capacity_B, is_safe

Takes = Callable[[Layout], bool]
"""Whether a layout may be chosen."""
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


@dataclass(slots=True, repr=False)
class Findings(Brief):
    """What a search has found so far."""

    space: Space
    """What is searched."""
    best: list[Scored] = field(default_factory=list)
    near: list[Scored] = field(default_factory=list)
    """Feasible layouts at most NEAR_FRAC slower than the fastest: the MOST_NEAR fastest."""
    near_safe: list[Scored] = field(default_factory=list)
    """The same of the layouts whose memory would fit if it were more than predicted (`layout.is_safe`)."""
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
    refused: Scored | None = None
    """Of the layouts that fit and may not be chosen, the fastest that was looked at."""
    complete: bool = True
    find_ends: Callable[[], Mapping[Layout, Ends]] = dict
    """Works out what the intervals of near layouts depend on, where several searches share that; else nothing."""

    @property
    def considered(self) -> int:
        """Layouts of the whole space: those that fit, and those that a rule or the memory rejects."""
        return self.feasible + self.rejected.total()

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
    takes: Takes | None = None,
    also_B: AlsoHeld | None = None,
) -> Findings:
    """Scores every layout of `space`.

    `progress(done, total)` is called after each stage count; Ctrl-C keeps what is known. `among` are the candidates of
    `job` and `space`, where several searches share them. What `takes` refuses is not chosen; it is asked only of what
    would be. `also_B`: what the layouts of a grid hold at another moment than those of a step.
    """
    each = ([some] for some in (candidates(job, space) if among is None else among))
    (found,) = _searched([job], cluster, space, each, top, prune, [takes], progress, also_B)
    return found


def searches(
    jobs: Sequence[Job], cluster: Cluster, space: Space, takes: Sequence[Takes | None], top: int = 5, cuts: Cuts = None
) -> list[Findings]:
    """`search` of several jobs that differ in nothing but their batch, in one pass of the formulas.

    No layers may be placed by hand in `space`; `cuts` are the micro-batches of it that each may have.
    """
    return _searched(jobs, cluster, space, candidates_of(jobs, space, cuts), top, True, takes, None)


def _searched(
    jobs: Sequence[Job], cluster: Cluster, space: Space, each: Iterable[Sequence[Candidates]], top: int, prune: bool,
    takes: Sequence[Takes | None], progress: Progress | None, also_B: AlsoHeld | None = None,
) -> list[Findings]:  # fmt: skip
    """What is found for every job of its candidates, stage count by stage count."""
    several, total = [Findings(space) for _ in jobs], len(space.pp)
    try:
        for done, given in enumerate(each):
            for found, job, some, takes_it in zip(several, jobs, given, takes, strict=True):
                found.rejected += some.rejected
                for part, sized in enumerate(some.grids):
                    held = sized if also_B is None else sized.holding(also_B)
                    _score(found, job, cluster, held, (done, part), top, prune, takes_it)
            if progress is not None:
                progress(done + 1, total)
    except KeyboardInterrupt:
        for found in several:
            found.complete = False
    return several


def _score(
    found: Findings,
    job: Job,
    cluster: Cluster,
    sized: Sized,
    place: tuple[int, int],
    top: int,
    prune: bool,
    takes: Takes | None,
) -> None:
    """Adds the layouts of one grid that keep the rules to `found`."""
    grid, valid, memory_B = sized.grid, sized.valid, sized.memory_B
    found.evaluated += int(np.count_nonzero(valid))
    held = valid & (memory_B <= found.space.memory_frac * cluster.device.memory_B)
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
    seconds = sized.step_time_s(job, cluster)
    scores = _Scores(grid, np.flatnonzero(fits), seconds.reshape(-1), memory_B.reshape(-1), place)
    taken = scores if takes is None else _taken(found, scores, max(top, MOST_NEAR), takes)
    _keep(found, taken, top, cluster.device.memory_B)


def _nearer(known: Miss | None, grid: LayoutGrid, missed: Mask, memory_B: Floats) -> Miss:
    """The layout that exceeds a memory by least: the one known, or one of `missed`."""
    over = np.where(missed, memory_B, np.inf)
    flat = int(np.argmin(over))
    least_B = float(over.reshape(-1)[flat])
    if known is not None and known.memory_B <= least_B:
        return known
    return Miss(least_B, grid.layouts(np.array([flat]))[0])


@dataclass(frozen=True, slots=True)
class _Scores:
    """Layouts of a grid at the places `flat`; the seconds and bytes of all of the grid."""

    grid: LayoutGrid
    flat: NDArray[np.intp]
    seconds: Floats
    memory_B: Floats
    place: tuple[int, int]

    def at(self, picked: NDArray[np.intp]) -> _Scores:
        """Those at some of the places."""
        return replace(self, flat=picked)

    def ordered(self) -> _Scores:
        """Fastest first, then by memory."""
        return self.at(self.flat[np.lexsort((self.memory_B[self.flat], self.seconds[self.flat]))])

    def scored(self) -> list[Scored]:
        """The score of every one."""
        layouts = zip(self.flat.tolist(), self.grid.layouts(self.flat), strict=True)
        return [Scored(float(self.seconds[i]), float(self.memory_B[i]), (*self.place, i), one) for i, one in layouts]


def _taken(found: Findings, scores: _Scores, enough: int, takes: Takes) -> _Scores:
    """Of the layouts that may be chosen, the fastest `enough`, and all that need less memory than every faster one."""
    left, taken, least_B, asked = scores.ordered().flat, list[int](), np.inf, enough
    while left.size:
        for one in scores.at(left[:asked]).scored():
            if len(taken) >= enough and one.memory_B >= least_B:
                continue
            if not takes(one.layout):
                found.refused = one if found.refused is None else min(found.refused, one)
                continue
            taken.append(one.place[-1])
            least_B = min(least_B, one.memory_B)
        left, asked = left[asked:], 2 * asked
        if len(taken) >= enough:
            left = left[scores.memory_B[left] < least_B]
    return scores.at(np.array(taken, dtype=np.intp))


def _keep(found: Findings, scores: _Scores, top: int, capacity_B: float) -> None:
    """Merges layouts into the best, those near it, the safe ones and the front."""
    if not scores.flat.size:
        return
    safe = scores.at(scores.flat[is_safe(scores.memory_B[scores.flat], capacity_B)])
    found.near_safe, found.near = _near(found.near_safe, safe), _near(found.near, scores)
    quick = _promising(scores.seconds[scores.flat], scores.memory_B[scores.flat], max(top, MOST_NEAR))
    ranked = scores.at(scores.flat[quick]).ordered()
    front = ranked.flat[_improves(scores.memory_B[ranked.flat])]
    found.best = sorted(found.best + scores.at(ranked.flat[:top]).scored())[:top]
    merged = sorted(found.front + scores.at(front).scored())
    found.front = [merged[i] for i in np.flatnonzero(_improves(np.array([one.memory_B for one in merged])))]


def _near(known: list[Scored], scores: _Scores) -> list[Scored]:
    """The fastest of the layouts known and scored, and those at most NEAR_FRAC slower."""
    seconds = scores.seconds[scores.flat]
    if not seconds.size:
        return known
    quickest_s = min(float(np.min(seconds)), *(one.step_time_s for one in known[:1]), np.inf)
    close = scores.at(scores.flat[seconds <= quickest_s * (1 + NEAR_FRAC)]).ordered()
    merged = sorted(known + close.at(close.flat[:MOST_NEAR]).scored())[:MOST_NEAR]
    return [one for one in merged if one.step_time_s <= merged[0].step_time_s * (1 + NEAR_FRAC)]


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
