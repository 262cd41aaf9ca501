"""How long whole runs take, in the planner's best layout."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from lockstep.base.types.arrays import Array
from lockstep.base.units import SECONDS_PER_DAY
from lockstep.check.evidence.claims.deciders import decides

if TYPE_CHECKING:
    from lockstep.decide.planner.estimate import Estimate


@cache
def _best(model: str, cluster: str, stack: str, seq: int, batch: int) -> Estimate:
    """The planner's best layout."""
    from lockstep import hardware, workload
    from lockstep.decide.planner.plan import plan
    from lockstep.price.layout import Recipe

    return plan(workload.model(model), hardware.cluster(cluster), Recipe.by(stack, seq=seq, batch=batch)).best


@decides("priced")
def days(model: str, cluster: str, stack: str, seq: int, batch: int, tokens: float, end: str) -> float:
    """Days of a run without failures, or the `least` or `most` that nine of ten such runs take.

    `batch` in sequences of `seq` tokens; `stack` is the training software.
    """
    best = _best(model, cluster, stack, seq, batch)
    seconds = {"least": best.interval.low, "expected": best.step_time_s, "most": best.interval.high}[end]
    return tokens / (seq * batch) * seconds / SECONDS_PER_DAY


@cache
def way_seconds(
    law: str, bandwidth_Bps: float, period: int, bound: int, steps: int, seed: int, trials: int = 16
) -> dict[str, float]:
    """Seconds to the target by the name of each way."""
    from lockstep.learn.lab import find_experiment

    given = {"law": law, "bandwidth_Bps": bandwidth_Bps, "period": period, "bound": bound, "steps": steps}
    given["trials"] = trials
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


def way_s(way: str, law: str, bandwidth_Bps: float, period: int, bound: int, trials: int) -> float:
    """Mean seconds to the target of one way, of 100 steps."""
    return way_seconds(law, bandwidth_Bps, period, bound, 100, 0, trials)[way]


PARTS = ("compute_s", "tp_comm_s", "waiting_s", "dp_comm_s", "bubble_s", "pp_comm_s", "other_s", "optimizer_s")
"""Of a step, as a figure names them in its rows."""
NUMBERS = ("peak_flops", "memory_bandwidth", "intra_bw", "inter_bw", "latency", "host")


def step_parts(model: str, cluster: str, stack: str, seq: int, batch: int) -> Array:
    """Shares of a step in the best layout, in the order of `PARTS`."""
    best = _best(model, cluster, stack, seq, batch)
    seconds = np.array([float(getattr(best.step, name)) for name in PARTS])
    return np.stack([np.arange(float(len(PARTS))), seconds / best.step_time_s])


def elasticities(model: str, cluster: str, stack: str, seq: int, batch: int) -> Array:
    """Per cent by which a step changes where a number of the hardware grows by one, in the order of `NUMBERS`."""
    from lockstep.decide.planner.sensitivity import hardware_elasticity

    best = _best(model, cluster, stack, seq, batch)
    found = [hardware_elasticity(best.job, best.cluster, best.layout, name) or 0.0 for name in NUMBERS]
    return np.stack([np.arange(float(len(NUMBERS))), found])
