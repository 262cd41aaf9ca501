"""How long whole runs take, in the planner's best layout."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from lockstep.base.units import SECONDS_PER_DAY
from lockstep.check.evidence.claims.deciders import decides

if TYPE_CHECKING:
    from lockstep.decide.planner.estimate import Estimate


@cache
def best_layout(model: str, cluster: str, stack: str, seq: int, batch: int) -> Estimate:
    """The planner's best layout for steps of `batch` sequences."""
    from lockstep import hardware, workload
    from lockstep.decide.planner.plan import plan
    from lockstep.price.layout import Recipe

    return plan(workload.model(model), hardware.cluster(cluster), Recipe.by(stack, seq=seq, batch=batch)).best


@decides("priced")
def days(model: str, cluster: str, stack: str, seq: int, batch: int, tokens: float, end: str) -> float:
    """Days of a run without failures, or the `least` or `most` that nine of ten such runs take.

    `batch` in sequences of `seq` tokens; `stack` is the training software.
    """
    best = best_layout(model, cluster, stack, seq, batch)
    seconds = {"least": best.interval.low, "expected": best.step_time_s, "most": best.interval.high}[end]
    return tokens / (seq * batch) * seconds / SECONDS_PER_DAY


@cache
def way_seconds(law: str, bandwidth_Bps: float, period: int, bound: int, steps: int, seed: int) -> dict[str, float]:
    """Seconds to the target by the name of each way."""
    from lockstep.learn.lab import find_experiment

    given = {"law": law, "bandwidth_Bps": bandwidth_Bps, "period": period, "bound": bound, "steps": steps}
    found = find_experiment("time-to-accuracy").answer({name: str(value) for name, value in given.items()}, seed)
    return {str(row["way"]): float(str(row["time_s"])) for row in found.rows}


@decides("simulated")
def way_ratio(
    way: str, other: str, law: str, bandwidth_Bps: float, period: int, bound: int, steps: int, seed: int
) -> float:
    """Mean seconds to the target of one way over those of another, with the same times and noise of all workers.

    Ways: synchronous, local:K, asynchronous, bounded:S.
    """
    seconds = way_seconds(law, bandwidth_Bps, period, bound, steps, seed)
    return seconds[way] / seconds[other]
