"""`LongRun`: every expected time of a pattern of checkpoints, on nodes that are always there or on a `Pool` of them.

A job that waits for repairs is one whose failures are noticed later by the mean wait, so every formula holds for it;
one that shrinks has the formula of `pool_overhead_frac`, in which runs are long.

From one restart to the next failure the job has k nodes away, speed v_k and MTBF M_k, and keeps on average

    n_k = (M_k + D) / t_k      t_k: seconds per interval of a long run with work / v_k in each and MTBF M_k (`expected`)
so with p_k from `pool.in_service`, D the mean detection and W the mean wait per failure (renewal-reward theorem)

    time per work = sum p_k (M_k + D + W) / (work sum p_k n_k)
Nothing broken, no wait: Daly's formula. The loss `degraded` is the wait and what kept work takes longer than on all
nodes. Exact for one kind of checkpoint, where every gap begins alike: n_k = e^(-(R + f delta) / M_k) / (e^((work / v_k
+ (1 - f) delta) / M_k) - 1). In a cycle of several a gap begins where the last one left off; its position is then taken
as usual for k nodes away, which is so while k changes slowly beside the cycle.

Source: S. M. Ross, Stochastic Processes, 2nd ed. 1996, theorem 3.6.1 (renewal reward); p_k and n_k are our own.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from lockstep.base.records import dataclass, replace
from lockstep.base.types.arrays import Array
from lockstep.simulate.failures.expected import ALL, RESTARTS, Counted, cycle_time_s, pattern_overhead_frac, run_time_s
from lockstep.simulate.failures.growth import AT_FAILURE
from lockstep.simulate.failures.intervals import POINTS, least, optimum
from lockstep.simulate.failures.losses import Losses, blocked_s, expected_losses
from lockstep.simulate.failures.pattern import Pattern, floats
from lockstep.simulate.failures.pool import Pool, Service, in_service

FEW_POINTS = 17
"""Of the search where every point has a pool of its own."""
SPREAD = 8.0
"""The curve runs from an eighth of the optimum to eight times it."""


def pool_overhead_frac(pattern: Pattern, pool: Pool, work_s: ArrayLike, mtbf_s: float) -> Array:
    """Expected time over useful work on all nodes, minus 1, of a long run. Broadcasts over `work_s`."""
    (work,) = floats(work_s)
    if pool.grows != AT_FAILURE:
        found = [_grown_overhead_frac(pattern, pool, float(one), mtbf_s) for one in work.flat]
        return np.array(found).reshape(work.shape)
    service = in_service(pool, pattern, mtbf_s)
    with np.errstate(divide="ignore", over="ignore"):
        return np.asarray(_gap_s(pattern, service) / (work * (_kept(pattern, service, work) @ service.share)) - 1)


def _grown_overhead_frac(pattern: Pattern, pool: Pool, work_s: float, mtbf_s: float) -> float:
    with np.errstate(divide="ignore", over="ignore"):
        service = in_service(pool, pattern, mtbf_s, work_s)
        spans = _spans(pattern, service, work_s)
        return float(service.share @ spans.whole_s + service.wait_s) / (work_s * float(service.share @ spans.kept)) - 1


def pool_losses(pattern: Pattern, pool: Pool, work_s: float, intervals: int, mtbf_s: float) -> Losses:
    """Losses of `intervals` intervals of `work_s` of a long run."""
    service = in_service(pool, pattern, mtbf_s, work_s)
    share, spans = service.share, _spans(pattern, service, work_s)
    gaps = intervals / float(share @ spans.kept)
    stopped_s = blocked_s(pattern, pattern.every) / pattern.every
    slower_s = float(share @ (spans.kept * work_s * (1 / service.speed_frac - 1)))
    noticing_s = float(share @ spans.failing_frac) * pattern.mean_detection_s
    restarting_s = float(share @ spans.restarting_s)
    saved_s = float(share @ spans.kept) * (work_s + stopped_s) + slower_s
    return Losses(
        work_s=intervals * work_s,
        checkpoint_s=intervals * stopped_s,
        rollback_s=max(0.0, gaps * (float(share @ spans.whole_s) - noticing_s - saved_s - restarting_s)),
        restart_s=gaps * restarting_s,
        detection_s=gaps * noticing_s,
        degraded_s=gaps * (service.wait_s + slower_s),
        failures=gaps * float(share @ spans.failing_frac),
    )


@dataclass(frozen=True, eq=False, slots=True)
class _Spans:
    """From one restart to the next, by number of nodes away."""

    whole_s: Array
    """Detection included, waits not."""
    kept: Array
    restarting_s: Array
    failing_frac: Array
    """Share that ends with a failure."""


def _spans(pattern: Pattern, service: Service, work_s: float) -> _Spans:
    gaps, work = service.gaps, np.asarray(work_s)
    if gaps is not None:
        failing = gaps.failing.sum(axis=1)
        return _Spans(gaps.mean_s + failing * pattern.mean_detection_s, gaps.kept, gaps.restarting_s, failing)
    kept = _kept(pattern, service, work)
    restarting_s = kept * _per_interval_s(pattern, service, work, RESTARTS)
    return _Spans(service.mtbf_s + pattern.mean_detection_s, kept, restarting_s, np.ones_like(kept))


def _gap_s(pattern: Pattern, service: Service) -> float:
    """Mean seconds from one restart to the next."""
    return float(service.share @ service.mtbf_s) + pattern.mean_detection_s + service.wait_s


def _kept(pattern: Pattern, service: Service, work_s: Array) -> Array:
    """n_k, shape (*work_s.shape, states)."""
    return np.asarray((service.mtbf_s + pattern.mean_detection_s) / _per_interval_s(pattern, service, work_s, ALL))


def _per_interval_s(pattern: Pattern, service: Service, work_s: Array, counted: Counted) -> Array:
    """t_k, or what of it is counted, shape (*work_s.shape, states)."""
    length_s = work_s[..., np.newaxis] / service.speed_frac
    return np.asarray(cycle_time_s(pattern, length_s, service.mtbf_s, counted) / pattern.every)


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


def overhead_curve(long_run: LongRun, best_s: float, points: int = 41) -> tuple[Array, Array]:
    """(work_s [intervals], overhead_frac [intervals]) around the optimum, with work longer than the writes need."""
    work_s = best_s * np.geomspace(1 / SPREAD, SPREAD, points)
    work_s = work_s[work_s >= long_run.pattern.shortest_work_s * (1 - 1e-12)]
    return work_s, long_run.overhead_frac(work_s)
