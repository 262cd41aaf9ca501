"""`best_runnable`: the best layout that a framework can run, where it cannot run the planner's best.

The planner's space is cut down to the axes that the framework has, and its layouts are tried in order of step time, so
that the first that is not refused is the best of all that are not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from lockstep.errors import Infeasible
from lockstep.planner.estimate import Estimate
from lockstep.planner.pins import Pins
from lockstep.planner.plan import plan
from lockstep.types.plain import Json
from lockstep.units import format_frac, format_time

LISTED = (100, 10_000, 1_000_000)
"""Layouts looked at, in turn: mostly one of the first will do."""


@dataclass(frozen=True, slots=True)
class Runnable:
    """The best layout that a framework can run, beside the planner's."""

    estimate: Estimate
    planned: Estimate
    """The planner's best, which it cannot run."""

    @property
    def slower_frac(self) -> float:
        """How much longer a step takes than in the planner's best layout."""
        return self.estimate.step_time_s / self.planned.step_time_s - 1

    def describe(self, why: str) -> tuple[str, ...]:
        """What was given up, and why."""
        own, best = format_time(self.estimate.step_time_s), format_time(self.planned.step_time_s)
        more = format_frac(abs(self.slower_frac))
        # The planner may have given up as much for a layout that loses less on slow links.
        change = f"{more} longer" if self.slower_frac >= 0 else f"{more} less than the robust choice"
        return (
            f"the planner's best layout is {self.planned.layout}: {best} per step; {why}",
            f"this is the best that can be exported: {own} per step, {change}",
        )


def best_runnable(
    found: Estimate, choices: Mapping[str, tuple[object, ...]], write: Callable[[Estimate], str]
) -> Runnable | None:
    """The best layout that `write` takes in what `choices` leave of the planner's space; None where there is none."""
    job, cluster = found.job, found.cluster
    whole = Pins(offload=(found.layout.offload,)).space(job, cluster.devices_per_unit(0))
    kept: Json = {
        axis: tuple(one for one in getattr(whole, axis) if one in allowed) for axis, allowed in choices.items()
    }
    if not all(kept.values()):
        return None
    seen = 0
    for listed in LISTED:
        try:
            several = plan(job.model, cluster, job.recipe, top=listed, space=replace(whole, **kept)).plans
        except Infeasible:
            return None
        for one in several[seen:]:
            if _takes(write, one):
                return Runnable(one, found)
        if len(several) < listed:
            return None
        seen = len(several)
    return None


def _takes(write: Callable[[Estimate], str], found: Estimate) -> bool:
    try:
        write(found)
    except Infeasible:
        return False
    return True
