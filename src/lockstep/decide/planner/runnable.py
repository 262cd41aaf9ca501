"""`best_for`: the best layout that a framework can run, where it cannot run the planner's best."""

from __future__ import annotations

from lockstep.base.errors import Infeasible
from lockstep.base.records import dataclass
from lockstep.base.units import format_frac, format_time
from lockstep.decide.planner.estimate import Estimate
from lockstep.decide.planner.pins import Pins
from lockstep.decide.planner.plan import plan
from lockstep.decide.planner.software import SOFTWARE


@dataclass(frozen=True, slots=True)
class Runnable:
    """The best layout that a framework can run, with the planner's."""

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


def best_for(to: str, found: Estimate) -> Runnable | None:
    """The best layout that `to` can run, where it cannot run `found`, the planner's best; None where there is none, or
    the planner does not know what `to` can run.
    """
    job, wanted = found.job, next((one for one in SOFTWARE.values() if one.target == to.removesuffix("-cli")), None)
    if wanted is None:
        return None
    pins = Pins(offload=(found.layout.offload,))
    try:
        best = plan(job.model, found.cluster, job.recipe, top=1, pins=pins, software=wanted).best
    except Infeasible:
        return None
    return Runnable(best, found)
