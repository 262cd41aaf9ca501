"""Tornado: the days and the money of a campaign when one number at a time is 20 % lower or higher.

Hardware numbers reprice the same layout (`planner.whatif.changed`); the batch moves to the nearest one that the layout
splits, and its elasticity is about throughput only unless a critical batch is known. Longest bar first.
"""

from __future__ import annotations

from collections.abc import Callable

from lockstep.base.errors import BadInput, Infeasible
from lockstep.base.records import dataclass, replace
from lockstep.base.types.plain import Json
from lockstep.decide.campaigns.run import Run, Scenario
from lockstep.decide.planner.estimate import estimate as estimate_layout
from lockstep.decide.planner.whatif import changed
from lockstep.describe.hardware import Cluster
from lockstep.price.layout import Job

SWING_FRAC = 0.2


@dataclass(frozen=True, slots=True)
class Bar:
    """One number: what the campaign takes when it is low and when it is high. None where that is not possible."""

    name: str
    low: Run | None
    high: Run | None

    def span(self, now: Run) -> float:
        """Largest relative change of days or money, to either side."""
        ends = [end for end in (self.low, self.high) if end is not None]
        days = [abs(end.days / now.days - 1) for end in ends]
        return max([*days, *(abs(_cost_ratio(end, now) - 1) for end in ends)], default=0.0)

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return {"name": self.name, "low": _end(self.low), "high": _end(self.high)}


def tornado(scenario: Scenario) -> tuple[Bar, ...]:
    """The bars, longest first; ties in the order of CHANGES. What changes nothing at all is left out."""
    now = scenario.run()
    bars = [Bar(name, *(_try(change, scenario, factor) for factor in (1 - SWING_FRAC, 1 + SWING_FRAC)))
            for name, change in CHANGES.items()]  # fmt: skip
    return tuple(sorted((bar for bar in bars if bar.span(now) > 0), key=lambda bar: -bar.span(now)))


def _try(change: Callable[[Scenario, float], Scenario], scenario: Scenario, factor: float) -> Run | None:
    try:
        return change(scenario, factor).run()
    except (BadInput, Infeasible):
        return None


def _hardware(name: str) -> Callable[[Scenario, float], Scenario]:
    """A change of one of the names of `changed`."""

    def change(scenario: Scenario, factor: float) -> Scenario:
        return _on(scenario, changed(scenario.estimate.cluster, name, factor))

    return change


def _on(scenario: Scenario, cluster: Cluster) -> Scenario:
    return replace(scenario, estimate=estimate_layout(scenario.estimate.job, cluster, scenario.estimate.layout))


def _batch(scenario: Scenario, factor: float) -> Scenario:
    job, layout = scenario.estimate.job, scenario.estimate.layout
    batch = max(1, round(job.recipe.batch * factor / layout.batch_unit)) * layout.batch_unit
    if batch == job.recipe.batch:
        raise BadInput("the layout cannot split a batch that close")
    other = Job(job.model, replace(job.recipe, batch=batch), job.devices)
    return replace(scenario, estimate=estimate_layout(other, scenario.estimate.cluster, layout))


def _mtbf(scenario: Scenario, factor: float) -> Scenario:
    now = scenario.operation
    return replace(scenario, operation=replace(now, device_mtbf_s=now.device_mtbf_s * factor, law=None))


def _storage(scenario: Scenario, factor: float) -> Scenario:
    now = scenario.operation
    if now.write_s is not None:
        return replace(scenario, operation=replace(now, write_s=now.write_s / factor))
    rate_Bps = now.write_Bps(scenario.estimate.job) * factor
    return replace(scenario, operation=replace(now, storage_Bps=rate_Bps, rank_Bps=None))


def _data(scenario: Scenario, factor: float) -> Scenario:
    rate_Bps = scenario.operation.data_Bps
    if rate_Bps is None:
        raise BadInput("data loading never limits the step")
    return replace(scenario, operation=replace(scenario.operation, data_Bps=rate_Bps * factor))


def _recovery(scenario: Scenario, factor: float) -> Scenario:
    return replace(scenario, operation=scenario.operation.recovering(scenario.estimate.job, factor))


def _price(scenario: Scenario, factor: float) -> Scenario:
    price = scenario.run().price_per_hour_usd
    return replace(scenario, price_per_hour_usd=None if price is None else price * factor)


CHANGES: dict[str, Callable[[Scenario, float], Scenario]] = {
    **{name: _hardware(name) for name in ("peak_flops", "memory_bandwidth", "intra_bw", "inter_bw")},
    "mtbf": _mtbf,
    "recovery": _recovery,
    "storage_bandwidth": _storage,
    "data_bandwidth": _data,
    "batch": _batch,
    "price": _price,
}
"""By the name of the number: mtbf of a device, recovery = detection and restart."""


def _cost_ratio(end: Run, now: Run) -> float:
    return 1.0 if end.cost_usd is None or not now.cost_usd else end.cost_usd / now.cost_usd


def _end(run: Run | None) -> Json | None:
    return None if run is None else {"days": run.days, "cost": run.cost_usd}
