"""Exact long-run time of a job on a `Pool`: waiting for repairs and working with fewer nodes, beside all other losses.

From one restart to the next failure the job has k nodes away, speed v_k and MTBF M_k, and keeps on average

    n_k = e^(-(R + f delta) / M_k) / (e^((work / v_k + (1 - f) delta) / M_k) - 1)        intervals
so with p_k from `pool.in_service`, D the mean detection and W the mean wait per failure (renewal-reward theorem)

    time per work = sum p_k (M_k + D + W) / (work sum p_k n_k)
Nothing broken, no wait: Daly's formula. `degraded` is the wait and what kept work takes longer than on all nodes.

Source: S. M. Ross, Stochastic Processes, 2nd ed. 1996, theorem 3.6.1 (renewal reward); p_k and n_k are our own.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from lockstep.errors import BadInput
from lockstep.reliability.arrays import Array, floats
from lockstep.reliability.losses import Losses
from lockstep.reliability.pattern import Pattern
from lockstep.reliability.pool import Pool, Service, in_service


def pool_overhead_frac(pattern: Pattern, pool: Pool, work_s: ArrayLike, mtbf_s: float) -> Array:
    """Expected time over useful work on all nodes, minus 1, of a long run. Broadcasts over `work_s`.

    Raises BadInput for a cycle of different checkpoints.
    """
    (work,) = floats(work_s)
    service = in_service(pool, pattern, mtbf_s)
    with np.errstate(divide="ignore", over="ignore"):
        return np.asarray(_gap_s(pattern, service) / (work * (_kept(pattern, service, work) @ service.share)) - 1)


def pool_losses(pattern: Pattern, pool: Pool, work_s: float, intervals: int, mtbf_s: float) -> Losses:
    """Losses of `intervals` intervals of `work_s` of a long run. Raises BadInput for a cycle of checkpoints."""
    service = in_service(pool, pattern, mtbf_s)
    kept = service.share * _kept(pattern, service, np.asarray(work_s))
    failures = intervals / float(kept.sum())
    restarting_s = service.mtbf_s * -np.expm1(-pattern.restarts_s[0] / service.mtbf_s)
    blocked_s = (1 - pattern.hidden_frac) * pattern.costs_s[0]
    slower_s = work_s * (1 / service.speed_frac - 1)
    busy_s = service.share @ (service.mtbf_s - restarting_s) - kept @ (work_s + blocked_s + slower_s)
    return Losses(
        work_s=intervals * work_s,
        checkpoint_s=intervals * blocked_s,
        rollback_s=max(0.0, failures * float(busy_s)),
        restart_s=failures * float(service.share @ restarting_s),
        detection_s=failures * pattern.mean_detection_s,
        degraded_s=failures * (service.wait_s + float(kept @ slower_s)),
        failures=failures,
    )


def _gap_s(pattern: Pattern, service: Service) -> float:
    """Mean seconds from one restart to the next."""
    return float(service.share @ service.mtbf_s) + pattern.mean_detection_s + service.wait_s


def _kept(pattern: Pattern, service: Service, work_s: Array) -> Array:
    """n_k, shape (*work_s.shape, states)."""
    if not pattern.is_single:
        raise BadInput("a job that shrinks needs the same checkpoint every time, no cycle of several", "fewest-nodes")
    hidden_s = pattern.hidden_frac * pattern.costs_s[0]
    length_s = work_s[..., np.newaxis] / service.speed_frac + pattern.costs_s[0] - hidden_s
    with np.errstate(over="ignore"):
        return np.asarray(
            np.exp(-(pattern.restarts_s[0] + hidden_s) / service.mtbf_s) / np.expm1(length_s / service.mtbf_s)
        )
