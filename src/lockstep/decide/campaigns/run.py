"""`Run`: a campaign on average, by formula: work and its parts, what failures add, days, device hours, money.

    wall = expected time of the work, cut into intervals, under exponential failures     (`failures.run_time_s`)
Cheap enough to ask again with any number changed, which is how sensitivities and advice are made.

`Scenario`: everything that an expected run depends on, so that any part can be replaced and the run asked again.
"""

from __future__ import annotations

import math

from lockstep.base.errors import BadInput, Infeasible
from lockstep.base.records import dataclass
from lockstep.base.units import SECONDS_PER_DAY, format_time
from lockstep.decide.campaigns.operation import Operation
from lockstep.decide.campaigns.target import Target
from lockstep.decide.campaigns.work import Ramp, Work, work
from lockstep.decide.planner.estimate import SECONDS_PER_HOUR, Estimate, hourly_price_usd
from lockstep.decide.planner.goal import check_tokens
from lockstep.simulate.failures import LongRun, Losses, Pattern, Pool, intervals_of

NO_PROGRESS = 1e3
"""Overhead beyond which a run is said to make no progress."""


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


@dataclass(frozen=True, slots=True)
class Run:
    """A campaign on average."""

    estimate: Estimate
    work: Work
    pattern: Pattern
    pool: Pool | None
    mtbf_s: float
    """Of the job; infinite when nothing fails."""
    interval_s: float
    """Work between checkpoints; the whole run when nothing fails."""
    losses: Losses
    price_per_hour_usd: float | None
    """Per device."""

    @property
    def wall_s(self) -> float:
        """Expected seconds."""
        return self.losses.wall_s

    @property
    def days(self) -> float:
        """Expected days."""
        return self.wall_s / SECONDS_PER_DAY

    @property
    def gpu_hours(self) -> float:
        """Device hours of the job, useful or not; spare nodes are not in them."""
        return self.wall_s / SECONDS_PER_HOUR * self.estimate.job.devices

    @property
    def paid_hours(self) -> float:
        """Device hours to pay for: those of the job and of its spare nodes."""
        spares = 0 if self.pool is None else self.pool.spares * self.estimate.cluster.devices_per_unit(0)
        return self.gpu_hours * (1 + spares / self.estimate.job.devices)

    @property
    def cost_usd(self) -> float | None:
        """Dollars, spare nodes included; None where no price is known."""
        return None if self.price_per_hour_usd is None else self.paid_hours * self.price_per_hour_usd

    @property
    def parts_s(self) -> dict[str, float]:
        """Seconds by part of the work and by loss; they add up to wall_s."""
        return self.work.parts_s | self.losses.by_name()

    @property
    def bottleneck(self) -> str:
        """The largest part that is not arithmetic: what to attack first."""
        parts_s = {name: seconds for name, seconds in self.parts_s.items() if name != "compute"}
        return max(parts_s, key=lambda name: parts_s[name])


def expected_run(
    found: Estimate, target: Target, operation: Operation, *, ramp: Ramp | None = None,
    price_per_hour_usd: float | None = None,
) -> Run:  # fmt: skip
    """The run of an estimated layout to its target. `price_per_hour_usd` replaces the cluster's.

    Raises BadInput when ramp or interval do not fit, Infeasible when failures leave no time to work.
    """
    tokens = target.with_batch(found.job.step_units)
    check_tokens(tokens, found.job.step_units)
    done = work(found, tokens, operation, ramp)
    pattern, pool, mtbf_s = operation.pattern(found.job), operation.pool(found), operation.mtbf_s(found.job.devices)
    long_run = LongRun(pattern, mtbf_s, pool)
    interval_s = _interval_s(long_run, operation.interval_s, done.work_s)
    number = intervals_of(done.work_s, interval_s, pattern)
    losses = long_run.losses(done.work_s / number, number)
    price = hourly_price_usd(found.cluster) if price_per_hour_usd is None else price_per_hour_usd
    return Run(found, done, pattern, pool, mtbf_s, interval_s, losses, price)


def _interval_s(long_run: LongRun, given_s: float | None, work_s: float) -> float:
    """The interval given, else the best; no checkpoint at all when nothing fails."""
    if math.isinf(long_run.mtbf_s):
        return work_s if given_s is None else given_s
    interval_s = long_run.best_s() if given_s is None else given_s
    if interval_s < long_run.pattern.shortest_work_s * (1 - 1e-12):
        raise BadInput(f"must be at least as long as the hidden part of a write, got {interval_s:g} s", "--interval")
    if not float(long_run.overhead_frac(interval_s)) < NO_PROGRESS:
        pattern = long_run.pattern
        raise Infeasible(
            f"failures every {format_time(long_run.mtbf_s)} leave no time to work: a checkpoint takes"
            f" {format_time(pattern.costs_s[0])}, a restart {format_time(pattern.restarts_s[0])};"
            " make them faster, or use fewer devices"
        )
    return interval_s
