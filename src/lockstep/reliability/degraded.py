"""Long-run time of a job on a `Pool`: waiting for repairs and working with fewer nodes, beside all other losses.

From one restart to the next failure the job has k nodes away, speed v_k and MTBF M_k, and keeps on average

    n_k = (M_k + D) / t_k      t_k: seconds per interval of a long run with work / v_k in each and MTBF M_k (`expected`)
so with p_k from `pool.in_service`, D the mean detection and W the mean wait per failure (renewal-reward theorem)

    time per work = sum p_k (M_k + D + W) / (work sum p_k n_k)
Nothing broken, no wait: Daly's formula. `degraded` is the wait and what kept work takes longer than on all nodes. Exact
for one kind of checkpoint, where every gap begins alike: n_k = e^(-(R + f delta) / M_k) / (e^((work / v_k + (1 - f)
delta) / M_k) - 1). In a cycle of several a gap begins where the last one left off; its position is then taken as usual
for k nodes away, which is so while k changes slowly beside the cycle.

Source: S. M. Ross, Stochastic Processes, 2nd ed. 1996, theorem 3.6.1 (renewal reward); p_k and n_k are our own.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from lockstep.reliability.arrays import Array, floats
from lockstep.reliability.expected import ALL, RESTARTS, Counted, cycle_time_s
from lockstep.reliability.losses import Losses, blocked_s
from lockstep.reliability.pattern import Pattern
from lockstep.reliability.pool import Pool, Service, in_service


def pool_overhead_frac(pattern: Pattern, pool: Pool, work_s: ArrayLike, mtbf_s: float) -> Array:
    """Expected time over useful work on all nodes, minus 1, of a long run. Broadcasts over `work_s`."""
    (work,) = floats(work_s)
    service = in_service(pool, pattern, mtbf_s)
    with np.errstate(divide="ignore", over="ignore"):
        return np.asarray(_gap_s(pattern, service) / (work * (_kept(pattern, service, work) @ service.share)) - 1)


def pool_losses(pattern: Pattern, pool: Pool, work_s: float, intervals: int, mtbf_s: float) -> Losses:
    """Losses of `intervals` intervals of `work_s` of a long run."""
    service = in_service(pool, pattern, mtbf_s)
    kept = service.share * _kept(pattern, service, np.asarray(work_s))
    failures = intervals / float(kept.sum())
    restarting_s = float(kept @ _per_interval_s(pattern, service, np.asarray(work_s), RESTARTS))
    stopped_s = blocked_s(pattern, pattern.every) / pattern.every
    slower_s = work_s * (1 / service.speed_frac - 1)
    rolled_back_s = float(service.share @ service.mtbf_s - kept @ (work_s + stopped_s + slower_s)) - restarting_s
    return Losses(
        work_s=intervals * work_s,
        checkpoint_s=intervals * stopped_s,
        rollback_s=max(0.0, failures * rolled_back_s),
        restart_s=failures * restarting_s,
        detection_s=failures * pattern.mean_detection_s,
        degraded_s=failures * (service.wait_s + float(kept @ slower_s)),
        failures=failures,
    )


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
