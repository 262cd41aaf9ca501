"""What Lockstep predicts for a study: each stretch in its published layout, or in the planner's, and the whole run.

    days = sum over stretches of  steps * step time / goodput,      steps = tokens / (batch * seq)
A duration that leaves interruptions out has goodput 1, one with downtime in it that of `goodput`. A stretch with a
ramp takes the mean time per token of its batches. Where a study names a `pace`, its kernels take published / predicted
days of that study times as long.

Goodput is the share of wall time that a run spends on work, as the campaign model expects it of a cluster.

    goodput = 1 / (1 + overhead),    overhead: expected time over work, minus 1, at the best checkpoint interval
Failures are those that the catalog knows of the cluster; detection, restart and checkpoint writes those of
`campaigns.Operation`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass, replace
from lockstep.base.types.plain import Json
from lockstep.base.units import SECONDS_PER_DAY
from lockstep.check.validation.cases.schema import study as find_study
from lockstep.check.validation.cases.study import Published, Stretch, Study
from lockstep.decide.campaigns import Operation
from lockstep.decide.planner.estimate import SECONDS_PER_HOUR, Estimate, estimate
from lockstep.decide.planner.plan import plan
from lockstep.decide.planner.space import Space, default_space
from lockstep.describe.hardware import Cluster
from lockstep.describe.hardware import cluster as find_cluster
from lockstep.describe.workload import RECOMPUTE
from lockstep.price.layout import Job, Layout
from lockstep.simulate.failures import optimum


def goodput_frac(found: Estimate) -> float:
    """Goodput of a long run in this layout; 1 where nothing is known about failures."""
    device_mtbf_s, storage_Bps = found.cluster.mtbf_s, found.cluster.storage_write_Bps
    if device_mtbf_s is None:
        return 1.0
    operation = Operation(device_mtbf_s=device_mtbf_s, storage_Bps=storage_Bps)
    best = optimum(operation.pattern(found.job), operation.mtbf_s(found.job.devices))
    return 1.0 / (1.0 + best.overhead_frac)


@dataclass(frozen=True, slots=True)
class Predicted:
    """One stretch as predicted at its full batch."""

    stretch: Stretch
    estimate: Estimate
    work_s: float | None
    """Seconds of the whole stretch without interruptions; None where its length is not known."""

    @property
    def step_time_s(self) -> float:
        """Seconds of an optimizer step."""
        return self.estimate.step_time_s

    @property
    def hidden_s(self) -> float:
        """Of a step, seconds that the experts' exchange runs beside computing."""
        return float(self.estimate.step.ep_hidden_s)

    def quantity(self, name: str) -> float:
        """A quantity of a stretch by name."""
        return goodput_frac(self.estimate) if name == "goodput_frac" else float(getattr(self.estimate, name))


@dataclass(frozen=True, slots=True)
class Prediction:
    """A study as predicted."""

    study: Study
    stretches: tuple[Predicted, ...]

    def value(self, row: Published) -> float | None:
        """The prediction beside a published number; None where the run's length is not known."""
        if row.stretch:
            found = next(one for one in self.stretches if one.stretch.name == row.stretch)
            return found.quantity(row.quantity)
        per_device = row.quantity == "gpu_hours"
        unit_s = SECONDS_PER_HOUR if per_device else SECONDS_PER_DAY
        total_s = 0.0
        for one in self.stretches:
            if one.stretch.apart:
                continue
            if one.work_s is None:
                return None
            wall_s = one.work_s / (goodput_frac(one.estimate) if row.downtime else 1.0)
            total_s += wall_s * (one.stretch.devices if per_device else 1)
        return total_s / unit_s


def predict(study: Study) -> Prediction:
    """Predicts every stretch. Raises BadInput when a published layout breaks a rule, Infeasible when nothing fits."""
    return Prediction(study, tuple(_predicted(study, stretch) for stretch in study.stretches))


def _predicted(study: Study, stretch: Stretch) -> Predicted:
    cluster = _paced(find_cluster(study.cluster, gpus=stretch.devices), pace_factor(study))
    job = Job(study.model, stretch.recipe, stretch.devices)
    found = estimate(job, cluster, _layout(job, cluster, stretch))
    work_s = None
    if stretch.tokens is not None:
        work_s = stretch.tokens * math.fsum(_seconds_per_token(found, stretch))
    return Predicted(stretch, found, work_s)


def pace_factor(study: Study) -> float:
    """Published over predicted days of the study that this one takes its pace from; 1 without one.

    Raises UnknownName, and BadInput where that study cannot tell.
    """
    if not study.pace:
        return 1.0
    other = find_study(study.pace)
    rows = [one for one in other.published if one.quantity == "days"]
    predicted = None if other.pace or not rows else predict(other).value(rows[0])
    if predicted is None:
        raise BadInput(f"{study.pace} must have published days, a known length and no pace of its own", "pace")
    return rows[0].value / predicted


def _paced(cluster: Cluster, factor: float) -> Cluster:
    """The cluster with software that is `factor` times slower."""
    if factor == 1.0:
        return cluster
    curve = cluster.device.efficiency.slowed(factor)
    return replace(cluster, device=replace(cluster.device, efficiency=curve))


def _seconds_per_token(found: Estimate, stretch: Stretch) -> Iterator[float]:
    """Seconds per token of each batch of the stretch, weighed by its share of the tokens."""
    job, batches = found.job, _batches(stretch)
    for batch in batches:
        recipe = replace(job.recipe, batch=batch)
        same = (
            found if batch == job.recipe.batch else estimate(replace(job, recipe=recipe), found.cluster, found.layout)
        )
        yield same.step_time_s / recipe.batch_tokens / len(batches)


def _batches(stretch: Stretch) -> list[int]:
    """The batches of a stretch, each of which has the same share of its tokens."""
    if stretch.ramp is None:
        return [stretch.recipe.batch]
    return list(range(stretch.ramp.start, stretch.recipe.batch, stretch.ramp.by))


def _layout(job: Job, cluster: Cluster, stretch: Stretch) -> Layout:
    """The published layout; what is not known of it is the planner's choice."""
    if stretch.layout and not stretch.chosen:
        return Layout(**stretch.layout)
    space = default_space(job, cluster.devices_per_unit(0))
    if stretch.layout:
        space = _restricted(space, stretch)
    return plan(job.model, cluster, job.recipe, space=space, top=1).best.layout


def _restricted(space: Space, stretch: Stretch) -> Space:
    """The space of layouts that agree with what is published."""
    known, chosen = Layout(**stretch.layout), stretch.chosen
    axes: Json = {name: (getattr(known, name),) for name in ("tp", "cp", "ep", "etp", "pp")}
    if "micro_batch" not in chosen:
        axes["micro_batch"] = (known.micro_batch,)
    elif stretch.ramp is not None:
        every = math.gcd(stretch.recipe.batch, *_batches(stretch))
        replicas = stretch.devices // (known.tp * known.pp * known.cp)
        axes["micro_batch"] = tuple(size for size in space.micro_batch if every % (replicas * size) == 0) or (1,)
    if "zero" not in chosen:
        axes["sharding"] = ((known.zero, known.shard),)
    if "recompute" not in chosen:
        axes["recompute"] = (RECOMPUTE.index(known.recompute),)
    if "sequence_parallel" not in chosen:
        axes["sequence_parallel"] = (int(known.sequence_parallel),)
    if "vpp" not in chosen and "schedule" not in chosen:
        axes["schedules"] = (known.schedule,)
    return replace(space, **axes)
