"""`upgrades`: what to buy or change next, each answered by planning again on the changed hardware.

Every upgrade searches the same space (`replans.py`), so it shows the best that the new hardware can do, not the old
layout on it. Compared with the layout in use:

    saving_frac      1 - step time after / step time now
    cost             more dollars per hour for all devices; 0 where nothing is bought, None where no price is known
    saving_per_cost  saving_frac per dollar and hour; None without a price, or where it costs nothing more

The first row is the same hardware planned again: what is saved for free, which every later one contains. It is left
out when nothing is faster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from lockstep import hardware
from lockstep.base.errors import BadInput, Infeasible
from lockstep.base.records import dataclass, replace
from lockstep.base.types.plain import Json, picked, plain
from lockstep.base.units import format_frac, format_size, format_time
from lockstep.decide.planner.estimate import Estimate, estimate, hourly_price_usd
from lockstep.decide.planner.replans import Replans
from lockstep.decide.planner.result import Plan
from lockstep.decide.planner.whatif import scaled
from lockstep.describe.hardware import Cluster
from lockstep.describe.workload import RECOMPUTE
from lockstep.price.layout import Job, Layout

SAME = "plan again on the same hardware"


@dataclass(frozen=True, slots=True)
class Upgrade:
    """One upgrade and the best layout with it."""

    what: str
    after: Estimate
    saving_frac: float
    cost: float | None

    @property
    def step_time_s(self) -> float:
        """Seconds of a step after the upgrade."""
        return self.after.step_time_s

    @property
    def saving_per_cost(self) -> float | None:
        """Share of the step time saved per additional dollar and hour; None where the price is zero or unknown."""
        return self.saving_frac / self.cost if self.cost is not None and self.cost > 0 else None

    def to_dict(self) -> Json:
        """Plain JSON form."""
        after = self.after
        return {
            **picked(self, "what step_time_s saving_frac cost saving_per_cost"),
            "cost_per_token": None if self.cost is None else after.cost_per_token,
            "memory_B": float(after.memory.total_B),
            "fits": bool(after.memory.fits),
            "cluster": after.cluster.name,
            "gpus": after.job.devices,
            "layout": after.layout.to_dict(),
        }

    def __str__(self) -> str:
        price = "price unknown" if self.cost is None else f"{self.cost:+.2f} $/h"
        return (
            f"{self.what}: {format_time(self.step_time_s)}, saves {format_frac(self.saving_frac)}, {price}; "
            f"{self.after.layout}"
        )


@dataclass(frozen=True, slots=True)
class Upgrades:
    """All upgrades of a layout in use."""

    now: Estimate
    found: tuple[Upgrade, ...]
    """In the order in which they were tried."""
    skipped: tuple[tuple[str, str], ...]
    """(what, why) of those that are not possible."""

    @property
    def by_saving(self) -> tuple[Upgrade, ...]:
        """Largest saving first; ties in the order tried."""
        return tuple(sorted(self.found, key=lambda one: -one.saving_frac))

    @property
    def by_value(self) -> tuple[Upgrade, ...]:
        """Free savings, then by saving per dollar, then those without a price by saving, last what saves nothing."""
        return tuple(sorted(self.found, key=_value))

    def to_dict(self) -> Json:
        """Plain JSON form, largest saving first."""
        return {
            "now": picked(self.now, "layout step_time_s"),
            "upgrades": plain(self.by_saving),
            "by_saving_per_cost": [one.what for one in self.by_value],
            "skipped": [{"what": what, "why": why} for what, why in self.skipped],
        }


def _value(one: Upgrade) -> tuple[int, float]:
    """Sort key of `by_value`."""
    if one.saving_frac <= 0.0:
        return 3, -one.saving_frac
    if one.saving_per_cost is not None:
        return 1, -one.saving_per_cost
    return (2 if one.cost is None else 0), -one.saving_frac


def upgrades(given: Plan | Estimate, *, replans: Replans | None = None) -> Upgrades:
    """The upgrades of a plan's best layout or of an estimated one; `replans` plans them, new ones if not given."""
    now = given.best if isinstance(given, Plan) else given
    replans = replans or Replans(now.job.model, now.job.recipe)
    found: list[Upgrade] = []
    skipped: list[tuple[str, str]] = []
    for what, make, is_priced in _hardware(now):
        try:
            after = _planned(now, make(), replans)
        except (BadInput, Infeasible) as error:
            skipped.append((what, str(error)))
            continue
        saving_frac = _saving(now, after)
        if what != SAME or saving_frac > 0.0:
            found.append(Upgrade(what, after, saving_frac, _cost(now, after) if is_priced else None))
    found += [Upgrade(what, after, _saving(now, after), cost) for what, after, cost in _less_recompute(now)]
    return Upgrades(now, tuple(found), tuple(skipped))


def _hardware(now: Estimate) -> Iterator[tuple[str, Callable[[], Cluster], bool]]:
    """(what, how to make the cluster, whether its price is known) of every hardware to try."""
    cluster, devices = now.cluster, now.job.devices
    yield SAME, lambda: cluster, True
    for index, level in enumerate(cluster.levels):
        if level.size > 1:
            factors = [2.0 if index == other else 1.0 for other in range(len(cluster.levels))]
            yield f"twice the {level.name} bandwidth", partial(scaled, cluster, bandwidth=factors), False
    yield "half the latency of every link", partial(scaled, cluster, latency=0.5), False
    yield "twice the memory", partial(scaled, cluster, memory=2.0), False
    yield "twice the devices", partial(cluster.resized, 2 * devices), True
    for name in cluster.device.successors:
        yield f"the same number of devices on {name}", partial(hardware.cluster, name, gpus=devices), True


def _planned(now: Estimate, cluster: Cluster, replans: Replans) -> Estimate:
    """The best layout on `cluster`, the one in use if it is still allowed and nothing in the space is faster."""
    job = Job(now.job.model, now.job.recipe, cluster.num_devices)
    best, kept = replans.fastest(cluster), _kept(job, cluster, now.layout)
    if best is not None and (kept is None or best.step_time_s < kept.step_time_s):
        return estimate(job, cluster, best.layout)
    if kept is None:
        raise Infeasible(f"no layout of {job.model.name} fits on {job.devices} x {cluster.device.name}")
    return kept


def _kept(job: Job, cluster: Cluster, layout: Layout) -> Estimate | None:
    """The layout in use on new hardware; None where it is not allowed or does not fit."""
    try:
        found = estimate(job, cluster, layout)
    except (BadInput, Infeasible):
        return None
    return found if found.memory.fits else None


def _less_recompute(now: Estimate) -> Iterator[tuple[str, Estimate, float | None]]:
    """The layout in use with one step less of recomputation, and how much memory that takes."""
    mode = RECOMPUTE.index(now.layout.recompute)
    if mode == 0:
        return
    lower = RECOMPUTE[mode - 1]
    after = estimate(now.job, now.cluster, replace(now.layout, recompute=lower))
    needs = f"recompute {lower} instead of {now.layout.recompute}, same layout"
    if after.memory.fits:
        yield needs, after, 0.0
    else:
        yield f"{needs}, with {format_size(float(after.memory.total_B))} of memory per device", after, None


def _saving(now: Estimate, after: Estimate) -> float:
    return 1.0 - after.step_time_s / now.step_time_s


def _cost(now: Estimate, after: Estimate) -> float | None:
    """Additional dollars per hour; None where a price is not known."""
    prices = [hourly_price_usd(one.cluster) for one in (now, after)]
    if after.cluster is now.cluster:
        return 0.0
    if prices[0] is None or prices[1] is None:
        return None
    return prices[1] * after.job.devices - prices[0] * now.job.devices
