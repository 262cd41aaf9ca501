"""`LongRun`: every expected time of a pattern of checkpoints, on nodes that are always there or on a `Pool` of them.

A job that waits for repairs is one whose failures are noticed later by the mean wait, so every formula holds for it;
one that shrinks has the formula of `degraded`, in which runs are long.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lockstep.failures.arrays import Array
from lockstep.failures.degraded import pool_losses, pool_overhead_frac
from lockstep.failures.expected import pattern_overhead_frac, run_time_s
from lockstep.failures.growth import AT_FAILURE
from lockstep.failures.losses import Losses, expected_losses
from lockstep.failures.optimum import POINTS, least, optimum
from lockstep.failures.pattern import Pattern
from lockstep.failures.pool import Pool, in_service

FEW_POINTS = 17
"""Of the search where every point has a pool of its own."""
SPREAD = 8.0
"""The curve runs from an eighth of the optimum to eight times it."""


@dataclass(frozen=True, slots=True)
class LongRun:
    """A pattern under failures every `mtbf_s` of the whole job."""

    pattern: Pattern
    mtbf_s: float
    pool: Pool | None = None

    def overhead_frac(self, work_s: ArrayLike) -> Array:
        """Expected time over useful work, minus 1, with `work_s` between checkpoints. Broadcasts."""
        if self.pool is not None and self.pool.shrinks:
            return pool_overhead_frac(self.pattern, self.pool, work_s, self.mtbf_s)
        return pattern_overhead_frac(self._waiting(), work_s, self.mtbf_s)

    def best_s(self) -> float:
        """Work between checkpoints of least overhead. Raises BadInput when nothing says how long it should be."""
        if self.pool is None or not self.pool.shrinks:
            return optimum(self._waiting(), self.mtbf_s).work_s
        optimum(self.pattern, self.mtbf_s)  # refuses what has none
        points = POINTS if self.pool.grows == AT_FAILURE else FEW_POINTS
        return least(self.overhead_frac, self.pattern.shortest_work_s, self.mtbf_s, points)

    def run_time_s(self, work_s: float, intervals: int) -> float:
        """Expected seconds of a run of `intervals` intervals."""
        if self.pool is not None and self.pool.shrinks:
            return intervals * work_s * (1 + float(self.overhead_frac(work_s)))
        return run_time_s(self._waiting(), work_s, intervals, self.mtbf_s)

    def losses(self, work_s: float, intervals: int) -> Losses:
        """Where that time goes."""
        if self.pool is not None and self.pool.shrinks:
            return pool_losses(self.pattern, self.pool, work_s, intervals, self.mtbf_s)
        found = expected_losses(self._waiting(), work_s, intervals, self.mtbf_s)
        waited_s = found.failures * self._wait_s()
        return replace(found, detection_s=found.detection_s - waited_s, degraded_s=waited_s)

    def _wait_s(self) -> float:
        """Mean wait for repairs per failure."""
        if self.pool is None or not np.isfinite(self.mtbf_s):
            return 0.0
        return in_service(self.pool, self.pattern, self.mtbf_s).wait_s

    def _waiting(self) -> Pattern:
        """The pattern, its failures noticed later by the mean wait."""
        wait_s, now = self._wait_s(), self.pattern
        return replace(now, detection_s=now.detection_s + wait_s, silent_delay_s=now.silent_delay_s + wait_s)


def overhead_curve(long_run: LongRun, best_s: float, points: int = 41) -> tuple[Any, Any]:
    """(work, overhead) arrays around the optimum, the optimum in the middle, longer than the writes need."""
    work_s = best_s * np.geomspace(1 / SPREAD, SPREAD, points)
    work_s = work_s[work_s >= long_run.pattern.shortest_work_s * (1 - 1e-12)]
    return work_s, long_run.overhead_frac(work_s)
