"""`Scenario`: everything that an expected run depends on, so that any part can be replaced and the run asked again."""

from __future__ import annotations

from dataclasses import dataclass

from lockstep.campaigns.operation import Operation
from lockstep.campaigns.ramp import Ramp
from lockstep.campaigns.run import Run, expected_run
from lockstep.campaigns.target import Target
from lockstep.planner import Estimate


@dataclass(frozen=True, slots=True)
class Scenario:
    """A layout, where it is to get to, and how it is operated."""

    estimate: Estimate
    target: Target
    operation: Operation
    ramp: Ramp | None = None
    price_per_hour_usd: float | None = None
    """Per device, instead of the cluster's."""

    def run(self) -> Run:
        """The expected run."""
        return expected_run(
            self.estimate, self.target, self.operation, ramp=self.ramp, price_per_hour_usd=self.price_per_hour_usd
        )
