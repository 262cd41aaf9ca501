"""Strong and weak scaling of a job over parts of a cluster, every size planned anew: where more devices stop helping.

    strong      the same batch on more devices
    weak        a batch that grows with the devices
    speedup     useful tokens per second over those of the smallest size that fits
    efficiency  rate per device over the highest of all sizes: on few devices a job may have to recompute or offload
    marginal    (rate / rate before - 1) / (devices / devices before - 1)     what the added devices add
With a target, rates and days contain failures, which grow with the devices, and what large batches spend on the same
loss where a critical batch is known. More devices stop helping at the size that no larger one beats by half of the
devices it adds. Sizes are powers of two of nodes, parts of a node, and the whole cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lockstep.base.errors import BadInput, Infeasible
from lockstep.base.records import dataclass, replace
from lockstep.base.types.plain import Json, picked, plain
from lockstep.base.types.progress import Progress
from lockstep.base.types.shown import Shown
from lockstep.decide.campaigns.operation import Operation
from lockstep.decide.campaigns.run import Run, expected_run
from lockstep.decide.campaigns.speedup import karp_flatt
from lockstep.decide.campaigns.target import Target
from lockstep.decide.planner.estimate import Estimate
from lockstep.decide.planner.goal import device_counts
from lockstep.decide.planner.plan import plan
from lockstep.decide.planner.uncounted import not_counted
from lockstep.decide.planner.utilisation import plain_mfu
from lockstep.describe.hardware import Cluster
from lockstep.describe.workload import Model
from lockstep.price.layout import Recipe

HELPING_FRAC = 0.5


@dataclass(frozen=True, slots=True)
class Size:
    """One number of devices and the best layout on it."""

    estimate: Estimate
    run: Run | None
    """To the target; None without one."""
    speedup: float
    efficiency_frac: float
    marginal_frac: float | None
    """None for the smallest size."""

    @property
    def devices(self) -> int:
        """Number of devices."""
        return self.estimate.job.devices

    def to_dict(self) -> Json:
        """Plain JSON form."""
        found, run = self.estimate, self.run
        return {
            "gpus": self.devices,
            "batch": found.job.recipe.batch,
            **picked(found, "step_time_s tokens_per_s"),
            **plain_mfu(found.utilisation),
            **picked(self, "speedup efficiency_frac marginal_frac"),
            "days": None if run is None else run.days,
            "cost": None if run is None else run.cost_usd,
            "goodput_frac": None if run is None else run.losses.goodput_frac,
            **picked(found, "cost_per_token layout"),
        }


@dataclass(frozen=True, slots=True, repr=False)
class Scaling(Shown):
    """All sizes that fit, ascending."""

    sizes: tuple[Size, ...]
    weak: bool
    skipped: tuple[tuple[int, str], ...]
    """(devices, why) of sizes on which nothing fits or gets anywhere."""
    deadline_s: float | None = None
    budget_usd: float | None = None

    @property
    def fastest(self) -> Size:
        """The highest rate; the smaller of equals."""
        return max(self.sizes, key=lambda one: one.speedup)

    @property
    def base(self) -> Size:
        """The size with the highest rate per device, which efficiency is measured by; the smaller of equals."""
        return max(self.sizes, key=lambda one: one.efficiency_frac)

    @property
    def last_helping(self) -> Size:
        """The smallest size beyond which every larger one loses more than half of what it adds."""
        for place, size in enumerate(self.sizes):
            if all(_marginal(size, larger) < HELPING_FRAC for larger in self.sizes[place + 1 :]):
                return size
        return self.sizes[-1]

    @property
    def serial_frac(self) -> float | None:
        """Serial share that Amdahl's law needs for the largest size over the base (Karp-Flatt); None at the base."""
        last, base = self.sizes[-1], self.base
        if self.weak or last is base:
            return None
        return float(karp_flatt(last.devices / base.devices, last.speedup / base.speedup))

    @property
    def for_deadline(self) -> Size | None:
        """The fewest devices that are done in time."""
        limit_s = self.deadline_s
        return next((one for one in self.sizes if one.run and limit_s and one.run.wall_s <= limit_s), None)

    @property
    def for_budget(self) -> Size | None:
        """The fastest size that the budget pays for."""
        limit_usd = self.budget_usd or 0.0
        paid = [one for one in self.sizes if one.run and one.run.cost_usd and one.run.cost_usd <= limit_usd]
        return max(paid, key=lambda one: one.speedup, default=None)

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return {
            "weak": self.weak,
            "rows": plain(self.sizes),
            "fastest_gpus": self.fastest.devices,
            "last_helping_gpus": self.last_helping.devices,
            "base_gpus": self.base.devices,
            **picked(self, "serial_frac for_deadline for_budget"),
            "skipped": [{"gpus": devices, "why": why} for devices, why in self.skipped],
            "not_counted": list(not_counted(self.base.estimate.job)),
        }


def scaling(
    model: Model, cluster: Cluster, recipe: Recipe, *, target: Target | None = None,
    operation: Callable[[Cluster], Operation] | None = None, weak: bool = False, deadline_s: float | None = None,
    budget_usd: float | None = None, progress: Progress | None = None,
) -> Scaling:  # fmt: skip
    """`model` on parts of `cluster` and on all of it; `recipe` has the batch of the whole cluster.

    Weak scaling cuts the batch with the devices, as far as it stays whole. `operation(part)`: how a run is operated on
    part of the cluster; where it raises BadInput the part is left out. `progress(done, total)` is called after each
    size. Raises BadInput when a deadline or budget has no target, or the whole cluster cannot be operated so,
    Infeasible when nothing fits on any size.
    """
    if target is None and (deadline_s is not None or budget_usd is not None):
        raise BadInput("needs --tokens, the length of the run", "--deadline" if budget_usd is None else "--budget")
    operated = operation or (lambda part: Operation())
    operated(cluster)
    counts = [one for one in device_counts(cluster) if _doubles(one, cluster)]
    found: list[tuple[Estimate, Run | None]] = []
    skipped: list[tuple[int, str]] = []
    for done, devices in enumerate(counts):
        try:
            part = cluster.resized(devices)
            found.append(_planned(model, part, _recipe(recipe, cluster, devices, weak), target, _on(part, operated)))
        except Infeasible as error:
            skipped.append((devices, str(error)))
        if progress is not None:
            progress(done + 1, len(counts))
    if not found:
        raise Infeasible(f"{model.name} fits on no part of {cluster.name}: {skipped[-1][1]}")
    return Scaling(tuple(_compared(found)), weak, tuple(skipped), deadline_s, budget_usd)


def _doubles(devices: int, cluster: Cluster) -> bool:
    """Whether the size is part of a node, a power of two of nodes, or the whole cluster."""
    nodes, rest = divmod(devices, min(cluster.devices_per_unit(0), cluster.num_devices))
    return devices == cluster.num_devices or (rest > 0 and nodes == 0) or (rest == 0 and nodes & (nodes - 1) == 0)


def _recipe(recipe: Recipe, cluster: Cluster, devices: int, weak: bool) -> Recipe:
    """The recipe for part of the cluster. Raises Infeasible when weak scaling leaves no whole sequence."""
    if not weak:
        return recipe
    batch, rest = divmod(recipe.batch * devices, cluster.num_devices)
    if rest or not batch:
        raise Infeasible(
            f"a batch of {recipe.batch} sequences does not shrink to {devices} of {cluster.num_devices} devices"
        )
    return replace(recipe, batch=batch)


def _on(part: Cluster, operated: Callable[[Cluster], Operation]) -> Operation:
    """How a run on a part is operated. Raises Infeasible where it cannot be."""
    try:
        return operated(part)
    except BadInput as error:
        raise Infeasible(str(error)) from None


def _planned(
    model: Model, part: Cluster, recipe: Recipe, target: Target | None, operation: Operation
) -> tuple[Estimate, Run | None]:
    """The best layout on a part of the cluster, and its run to the target."""
    best = plan(model, part, recipe, objective="robust", top=1).best
    return best, None if target is None else expected_run(best, target, operation)


def _compared(found: Sequence[tuple[Estimate, Run | None]]) -> list[Size]:
    """Every size beside the smallest, the one with the highest rate per device, and the one before."""
    rates = [one.tokens_per_s if run is None else 1 / run.wall_s for one, run in found]
    best_rate = max(rate / one.job.devices for (one, _), rate in zip(found, rates, strict=True))
    sizes: list[Size] = []
    for (one, run), rate in zip(found, rates, strict=True):
        size = Size(one, run, rate / rates[0], rate / one.job.devices / best_rate, None)
        sizes.append(replace(size, marginal_frac=_marginal(sizes[-1], size)) if sizes else size)
    return sizes


def _marginal(size: Size, larger: Size) -> float:
    """What the added devices add, of what they would if nothing were lost."""
    return (larger.speedup / size.speedup - 1) / (larger.devices / size.devices - 1)
