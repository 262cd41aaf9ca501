"""`lateness`: by how much a host is later than predicted on all ranks, and `host_factors`, the software's times then.

Of the seconds that a device waits for its host beyond those predicted (`factors.py`), the step's are those before its
first and after its last kernel, in loading data and in waiting for the device; all others are the launches'. The median
over ranks counts: one rank's late host is a fault of the run, not of its software.

What a step costs the host hides behind nothing, so its factor follows at once. Launches hide behind kernels: their
factor is the one with which the predicted step is longer by as much as the replay is with late launches.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lockstep.base.records import dataclass, replace
from lockstep.decide.planner.estimate import Estimate, estimate
from lockstep.describe.hardware import Cluster
from lockstep.describe.hardware.pace import paced
from lockstep.describe.hardware.schema import FactorEntry, PaceEntry
from lockstep.explain.ranks import AllRanks
from lockstep.explain.replay import Factors, Replay
from lockstep.explain.seen import Seen
from lockstep.price.kernels.clock import Clock

LATE_FRAC = 0.01
"""Of a step: a host that is later by less is as predicted."""
LAUNCH_BOUND_FRAC = 0.02
"""A step that is shorter by so much without launches is bound by them."""
LEAST_ERROR_FRAC = 0.01
LEAST, MOST = 1e-3, 1e3
HALVINGS = 24


@dataclass(frozen=True, slots=True)
class Lateness:
    """Of a host, alike on all ranks."""

    step_s: float
    """What a step costs it beyond the prediction; below 0 where it is less."""
    launches_s: float
    """By how much its launches make the step longer."""
    replayed_s: float
    """The step with late launches and without what single ranks do, as replayed."""
    error_frac: float
    """Relative standard deviation of the seconds of lateness over ranks and steps."""


def lateness(one: AllRanks, seen: Seen, predicted: Seen, found: Factors) -> Lateness | None:
    """How late the host was; None where it was not, and where launches are not known."""
    late_s = np.median(found.host_s, axis=1)
    least_s = LATE_FRAC * float(seen.step_s.mean())
    if late_s.mean() <= least_s or any(trace.graphs or trace.on_host for trace in seen.traces):
        return None
    step_s = min(_between_s(seen) - _between_s(predicted), float(late_s.mean()))
    launches_s = late_s - (step_s if abs(step_s) > least_s else 0.0)
    alike = np.ones_like(found.ranks)
    factors = replace(
        found, stages=np.ones_like(found.stages), ranks=alike, experts=alike, host_s=launches_s[:, None] * alike
    )
    replay, names = Replay(one, factors), factors.names
    replayed_s = replay.step_s(names)
    spread = float(np.median(np.abs(found.host_s - late_s.mean()))) / float(late_s.mean())
    return Lateness(
        step_s if abs(step_s) > least_s else 0.0,
        replayed_s - replay.step_s([name for name in names if name != "host"]),
        replayed_s + max(0.0, one.estimate.step_time_s - replay.step_s(())),
        max(LEAST_ERROR_FRAC, 1.4826 * spread),
    )


def _between_s(seen: Seen) -> float:
    """Seconds of a step that cost the host, not a launch: the median over ranks, the mean over steps."""
    return float(np.median([[one.between_s for one in each] for each in seen.partitions], axis=0).mean())


def host_factors(one: Estimate, cluster: Cluster, entry: PaceEntry, late: Lateness | None) -> PaceEntry:
    """The pace `entry` of a cluster with what launches and steps cost the host of an estimate's software."""
    if late is None:
        return entry
    clock, found = Clock.of(paced(cluster.device, entry), one.job.recipe), {}
    if late.step_s:
        found["step"] = _entry(entry.factor * max(LEAST, 1.0 + late.step_s / clock.step_s), late.error_frac)

    def step_s(factor: float) -> float:
        device = paced(cluster.device, entry.model_copy(update={"launch": FactorEntry(factor=factor)}))
        return estimate(one.job, replace(cluster, device=device), one.layout).step_time_s

    usual_s = step_s(entry.factor)
    target_s = usual_s + late.launches_s
    if step_s(LEAST) < (1.0 - LAUNCH_BOUND_FRAC) * usual_s:
        # Waiting for launches was predicted as computing, so what is measured as waiting was not all new.
        target_s = late.replayed_s
    if late.launches_s > LATE_FRAC * usual_s and step_s(MOST) > target_s > step_s(LEAST):
        factor = _root(step_s, target_s)
        more = _root(step_s, target_s + late.error_frac * late.launches_s)
        found["launch"] = _entry(factor, max(LEAST_ERROR_FRAC, more / factor - 1.0))
    return entry.model_copy(update=found)


def _root(rising: Callable[[float], float], target: float) -> float:
    """Where a function that does not fall reaches a value, by halving the interval of exponents."""
    low, high = LEAST, MOST
    for _ in range(HALVINGS):
        middle = (low * high) ** 0.5
        low, high = (low, middle) if rising(middle) >= target else (middle, high)
    return high


def _entry(factor: float, error_frac: float) -> FactorEntry:
    return FactorEntry(factor=round(factor, 4), error=round(error_frac, 4))
