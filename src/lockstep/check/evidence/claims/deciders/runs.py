"""How long whole runs take, in the planner's best layout."""

from __future__ import annotations

from lockstep.base.units import SECONDS_PER_DAY
from lockstep.check.evidence.claims.deciders import decides


@decides("priced")
def days(model: str, cluster: str, stack: str, seq: int, batch: int, tokens: float, end: str) -> float:
    """Days of a run without failures, or the `least` or `most` that nine of ten such runs take.

    `batch` in sequences of `seq` tokens; `stack` is the training software.
    """
    from lockstep import hardware, workload
    from lockstep.decide.planner.plan import plan
    from lockstep.price.layout import Recipe

    recipe = Recipe.by(stack, seq=seq, batch=batch)
    best = plan(workload.model(model), hardware.cluster(cluster), recipe).best
    seconds = {"least": best.interval.low, "expected": best.step_time_s, "most": best.interval.high}[end]
    return tokens / (seq * batch) * seconds / SECONDS_PER_DAY
