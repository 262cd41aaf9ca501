"""`Change`: one thing to do differently, and the days and dollars that a whole campaign saves by it.

Hardware and layout are the upgrades of `plan.upgrades`, each planned again; the rest is about operation: hiding
checkpoints, noticing and restarting faster, waiting less for slow devices, data and evaluation. Largest saving of days
first; a change that saves money as well is worth more than its place.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from lockstep.base.errors import BadInput, Infeasible
from lockstep.base.records import dataclass, replace
from lockstep.base.types.plain import Json
from lockstep.decide.campaigns.run import Run, Scenario
from lockstep.decide.planner.upgrades import upgrades
from lockstep.simulate.failures.growth import AT_FAILURE

HIDDEN_FRAC = 0.95
"""Of an asynchronous checkpoint: what ByteCheckpoint and Megatron-LM hide, all but copying to host memory (assumed)."""

SHRINK_FRAC = 0.75
"""Of the nodes: where a job that shrinks stops shrinking."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change and the run with it."""

    what: str
    after: Run
    saved_days: float
    saved_usd: float | None
    """Negative where it costs more; None where a price is not known."""

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return {
            "what": self.what,
            "days": self.after.days,
            "cost": None if self.saved_usd is None else self.after.cost_usd,
            "saved_days": self.saved_days,
            "saved_cost": self.saved_usd,
            "gpus": self.after.estimate.job.devices,
            "cluster": self.after.estimate.cluster.name,
            "layout": self.after.estimate.layout.to_dict(),
        }


def changes(scenario: Scenario) -> tuple[Change, ...]:
    """Every change that saves time, most days first; ties in the order tried."""
    now = scenario.run()
    found = []
    for what, other, is_priced in (*_hardware(scenario), *_operation(scenario)):
        try:
            after = other.run()
        except (BadInput, Infeasible):
            continue
        saved_days = now.days - after.days
        if saved_days > 0:
            found.append(Change(what, after, saved_days, _saved_usd(now, after) if is_priced else None))
    return tuple(sorted(found, key=lambda one: -one.saved_days))


def _hardware(scenario: Scenario) -> Iterator[tuple[str, Scenario, bool]]:
    """(what, scenario, whether its price is known) of every upgrade."""
    now = scenario.estimate
    for upgrade in upgrades(now).found:
        same_device = upgrade.after.cluster.device == now.cluster.device
        is_priced = upgrade.cost is not None and (same_device or scenario.price_per_hour_usd is None)
        yield upgrade.what, replace(scenario, estimate=upgrade.after), is_priced


def _operation(scenario: Scenario) -> Iterator[tuple[str, Scenario, bool]]:
    """The same for changes of operation, which cost nothing per hour."""
    now, cluster = scenario.operation, scenario.estimate.cluster
    if now.hidden_frac < HIDDEN_FRAC:
        yield "asynchronous checkpoints", replace(scenario, operation=replace(now, hidden_frac=HIDDEN_FRAC)), True
    if not now.saving(scenario.estimate.job).is_cycle and cluster.num_nodes % 2 == 0 and now.grows == AT_FAILURE:
        copied = replace(now, copies=2, copy_Bps=cluster.bandwidth_per_device_Bps(1))
        yield "copies in the memory of a peer", replace(scenario, operation=copied), True
    halved = now.recovering(scenario.estimate.job, 0.5)
    yield "half the detection and restart times", replace(scenario, operation=halved), True
    rarer = replace(now, device_mtbf_s=2 * now.device_mtbf_s, silent_mtbf_s=2 * now.silent_mtbf_s, law=None)
    yield "half the failures", replace(scenario, operation=rarer), False
    if now.repair_s is not None:
        yield "one more spare node", replace(scenario, operation=replace(now, spares=now.spares + 1)), True
        if now.fewest_frac == 1:
            shrinking = replace(now, fewest_frac=SHRINK_FRAC)
            yield "continue on fewer nodes instead of waiting", replace(scenario, operation=shrinking), True
    if not math.isinf(now.silent_mtbf_s):
        seen = replace(now, silent_delay_s=now.silent_delay_s / 2)
        yield "notice corruption in half the time", replace(scenario, operation=seen), True
    if now.interval_s is not None:
        yield "the best interval", replace(scenario, operation=replace(now, interval_s=None)), True
    if now.straggler_cv:
        steady = replace(now, straggler_cv=now.straggler_cv / 2)
        yield "half the spread of the devices", replace(scenario, operation=steady), True
    if now.data_Bps is not None:
        fed = replace(now, data_Bps=2 * now.data_Bps)
        yield "twice the rate of reading data", replace(scenario, operation=fed), False
    if now.eval_every is not None:
        rare = replace(now, eval_every=2 * now.eval_every)
        yield "half as many evaluations", replace(scenario, operation=rare), True


def _saved_usd(now: Run, after: Run) -> float | None:
    return None if now.cost_usd is None or after.cost_usd is None else now.cost_usd - after.cost_usd
