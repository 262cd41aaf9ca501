"""`campaign(...)`: a whole training run from its first step to its target, on average and as it may turn out.

The mean is a formula; the simulation draws the failures of many campaigns and must agree with it. The interval of one
run is wider than that of the mean: single campaigns differ by their failures, and the step time itself is only known
within its own interval, whose ends are taken as quantiles of a factor that is lognormal on either side.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from statistics import NormalDist

import numpy as np

from lockstep.base.engines import Engine, SweepFile
from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass, replace
from lockstep.base.types.plain import Json, picked, plain
from lockstep.base.types.progress import Progress
from lockstep.base.types.shown import Shown
from lockstep.base.units import SECONDS_PER_DAY
from lockstep.decide.campaigns.changes import Change, changes
from lockstep.decide.campaigns.offer import Energy, Market, Offer, energy, offer, spot_operation
from lockstep.decide.campaigns.run import Run, Scenario
from lockstep.decide.campaigns.tornado import Bar, tornado
from lockstep.decide.planner.from_file import imported
from lockstep.decide.planner.interval import Interval
from lockstep.simulate.failures import Campaigns, simulate_blocks
from lockstep.simulate.play import Exponential, Sample

MOST_FAILURES = 1e8
"""In all simulated campaigns together: seconds on one core."""
HIGHEST_LEVERAGE = 3
RANGE_DRAWS = 10_000


@dataclass(frozen=True, eq=False, repr=False)
class Campaign(Shown):
    """A run to its target."""

    scenario: Scenario
    run: Run
    simulated: Campaigns | None
    """None when nothing fails."""
    interval: Interval
    """Days in which one campaign ends: failures and the error of the step time together."""
    offers: tuple[Offer, ...]
    energy: Energy | None
    warmup_steps: int
    assumptions: tuple[str, ...]

    @cached_property
    def tornado(self) -> tuple[Bar, ...]:
        """What the days follow: every number 20 % lower and higher, the longest bar first."""
        return tornado(self.scenario)

    @cached_property
    def changes(self) -> tuple[Change, ...]:
        """What to change, each planned again, most days first."""
        return changes(self.scenario)

    @property
    def ci95_days(self) -> tuple[float, float]:
        """95 % confidence interval of the mean, by simulation."""
        if self.simulated is None:
            return self.run.days, self.run.days
        low, high = Sample(self.simulated.wall_s / SECONDS_PER_DAY).interval_s()
        return low, high

    def to_dict(self) -> Json:
        """Plain JSON form with the names of the command line."""
        run, found = self.run, self.scenario.estimate
        return {
            "days": run.days,
            **picked(self, "interval ci95_days"),
            "gpu_hours": run.gpu_hours,
            "cost": run.cost_usd,
            **picked(run.losses, "goodput_frac failures"),
            "breakdown": {name: seconds / SECONDS_PER_DAY for name, seconds in run.parts_s.items()},
            "bottleneck": run.bottleneck,
            "sensitivity": plain(self.tornado),
            "changes": plain(self.changes),
            "highest_leverage": [one.what for one in self.changes[:HIGHEST_LEVERAGE]],
            **picked(self, "offers energy"),
            **picked(run.work, "tokens steps"),
            "warmup": {"steps": self.warmup_steps, "days": self.warmup_days},
            "loss": self.scenario.target.loss,
            **picked(found, "layout step_time_s mfu_frac"),
            "bound_by": found.bound_by,
            "mtbf_s": run.mtbf_s,
            "checkpoint": {
                "interval_s": run.interval_s,
                "write_s": run.pattern.costs_s[-1],
                "every": run.pattern.every,
                "between_s": run.pattern.costs_s[0],
                "kept_checkpoints": run.pattern.kept(run.interval_s),
            },
            "simulated": plain(self.simulated),
            **imported(found.job),
            "model": found.job.model.name,
            "cluster": found.cluster.name,
            "gpus": found.job.devices,
            "assumptions": plain(self.assumptions),
        }

    @property
    def warmup_days(self) -> float:
        """Days in which the learning rate still rises, as a share of the steps."""
        return self.run.days * self.warmup_steps / self.run.work.steps


def campaign(
    scenario: Scenario, *, market: Market | None = None, power_W: float | None = None, pue: float = 1.0,
    carbon_kg_per_kWh: float | None = None, warmup_steps: int = 0, campaigns: int = 1000, seed: int = 0,
    engine: Engine | None = None, file: SweepFile | None = None, progress: Progress | None = None,
) -> Campaign:  # fmt: skip
    """The campaign of a scenario: its mean, `campaigns` simulated ones, offers, energy, sensitivities.

    `power_W` per device (None means its TDP); `market` for prices besides the one on demand; `engine` and `file` select
    where runs are simulated and kept; `progress(done, total)` is called between the parts. Raises BadInput, and
    Infeasible when the run makes no progress.
    """
    tell = progress or (lambda done, total: None)
    run = scenario.run()
    if warmup_steps > run.work.steps:
        raise BadInput(f"the whole run has {run.work.steps:,.0f} steps, got {warmup_steps:,}", "--warmup-steps")
    tell(1, 2)
    simulated = _simulated(scenario, run, campaigns, seed, engine, file, tell)
    tell(2, 2)
    return Campaign(
        scenario=scenario,
        run=run,
        simulated=simulated,
        interval=_interval_days(run, simulated, scenario.estimate.interval, seed),
        offers=tuple(_offers(scenario, run, market or Market())),
        energy=_energy(scenario, run, power_W, pue, carbon_kg_per_kWh),
        warmup_steps=warmup_steps,
        assumptions=tuple(_assumptions(scenario, run)),
    )


def _simulated(
    scenario: Scenario, run: Run, campaigns: int, seed: int, engine: Engine | None, file: SweepFile | None,
    progress: Progress,
) -> Campaigns | None:  # fmt: skip
    """`campaigns` runs with drawn failures; None when nothing fails."""
    if math.isinf(run.mtbf_s):
        return None
    if campaigns * run.losses.failures > MOST_FAILURES:
        said = f"{campaigns:,} runs of {run.losses.failures:,.0f} failures each are too many to simulate; try fewer"
        raise BadInput(said, "--campaigns")
    law = Exponential(run.mtbf_s) if scenario.operation.law is None else scenario.operation.law
    return simulate_blocks(
        run.pattern, run.work.work_s, run.interval_s, law, pool=run.pool, campaigns=campaigns, seed=seed,
        engine=engine, file=file, progress=progress,
    )  # fmt: skip


def _interval_days(run: Run, simulated: Campaigns | None, step_s: Interval, seed: int) -> Interval:
    """Days of single campaigns, each with a step time of its own, between quantiles of the step time's level."""
    wall_s = np.full(RANGE_DRAWS, run.wall_s) if simulated is None else np.resize(simulated.wall_s, RANGE_DRAWS)
    generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence((seed, RANGE_DRAWS))))
    drawn, outside, predicted_s = (
        generator.standard_normal(RANGE_DRAWS),
        1 - step_s.level_frac,
        run.estimate.step_time_s,
    )
    below, above = math.log(predicted_s / step_s.low), math.log(step_s.high / predicted_s)
    at_ends = NormalDist().inv_cdf(1 - outside / 2)
    factor = np.exp(np.where(drawn < 0, below, above) * drawn / at_ends)
    low, high = np.quantile(wall_s * factor, (outside / 2, 1 - outside / 2)) / SECONDS_PER_DAY
    return Interval(float(low), float(high), step_s.level_frac)


def _offers(scenario: Scenario, run: Run, market: Market) -> list[Offer]:
    """On demand, and what else there is a price for."""
    price = run.price_per_hour_usd
    if price is None:
        return []
    found = [offer("on demand", run, price)]
    if market.reserved_discount_frac is not None:
        found.append(offer("reserved", run, price * (1 - market.reserved_discount_frac)))
    if market.spot_discount_frac is not None and market.preemption_s is not None:
        node = scenario.estimate.cluster.devices_per_unit(0)
        spot = replace(scenario, operation=spot_operation(scenario.operation, market.preemption_s, node))
        found.append(offer("spot", spot.run(), price * (1 - market.spot_discount_frac)))
    return found


def _energy(
    scenario: Scenario, run: Run, power_W: float | None, pue: float, carbon_kg_per_kWh: float | None
) -> Energy | None:
    """Energy at the specified power, or at the device's TDP; None where neither is known."""
    drawn_W = scenario.estimate.cluster.device.tdp_W if power_W is None else power_W
    return None if drawn_W is None else energy(run.gpu_hours, drawn_W, pue=pue, carbon_kg_per_kWh=carbon_kg_per_kWh)


def _assumptions(scenario: Scenario, run: Run) -> Iterator[str]:
    """What the campaign takes for granted, then what its step does."""
    found = scenario.estimate
    yield from scenario.target.assumptions
    yield from scenario.operation.assumptions(found.job)
    if scenario.operation.law is not None:
        yield "formulas take exponential gaps of the same mean; only the simulation follows the law given"
    if run.work.parts_s["evaluation"]:
        yield "evaluation runs forward passes only, a third of a step's FLOPs per token"
    yield "the interval is of one run: its failures, and a step time within its own interval"
    if not bool(found.memory.fits):
        yield "this layout does not fit in memory: its times are what they would be if it did"
    yield from found.assumptions()
