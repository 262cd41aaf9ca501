"""Elasticities of the step time: by how many per cent it changes when a number changes by one per cent.

    e(x) = d ln T / d ln x  ~  (ln T(x (1+h)) - ln T(x / (1+h))) / (2 ln(1+h)),    h = 1 %

T is the step model itself, called with changed hardware. Rates have elasticities of at most 0, times of at least 0,
and as T doubles when every time doubles and every rate halves (Euler, homogeneous of degree one)

    sum over TIMES e - sum over RATES e = 1        to the accuracy of the differences.

Numbers that cannot move by a per cent move by their smallest step: the batch by one micro-batch per replica (one round
of micro-batches where the schedule is interleaved), the sequence by what the layout divides, micro-batch and degrees to
half and double, with dp filling up the devices for tp, pp and cp. None where neither neighbour keeps the rules; whether
the neighbour fits in memory is not asked. The host link and memory of offloaded states belong to no number here.

More memory changes nothing for a given layout, so `memory_B` compares plans: the best layout of the default space with
10 % more memory against the best with what there is; 0 when it stays the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from lockstep.base.records import dataclass, replace
from lockstep.base.types.plain import Json, picked
from lockstep.decide.planner.replans import Replans
from lockstep.decide.planner.whatif import scaled
from lockstep.describe.hardware import Cluster
from lockstep.price.layout import Job, Layout, broken_rules, check
from lockstep.price.step import price_step

STEP = 1.01
MEMORY_STEP = 1.1
RATES = ("peak_flops", "memory_bandwidth", "intra_bw", "inter_bw")
"""Hardware rates; intra_bw is the innermost level of the cluster, inter_bw all levels outside it."""
TIMES = ("latency", "host")
"""Hardware delays: of messages, and of the host (kernel launches, recomputation, fixed time per step)."""
SWAPPED = ("tp", "pp", "cp")
"""Degrees that trade devices with dp."""
DEGREES = (*SWAPPED, "ep", "vpp", "micro_batch")


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """Elasticities of the step time of one layout."""

    job: Job
    cluster: Cluster
    layout: Layout
    elasticity: Mapping[str, float | None]
    """By name; None where the number cannot change. With several outer levels, also bw_<name> for each."""

    @property
    def ranked(self) -> tuple[tuple[str, float], ...]:
        """(name, elasticity) of what can change, the strongest first; ties in the order of the names."""
        known = [(name, value) for name, value in self.elasticity.items() if value is not None]
        return tuple(sorted(known, key=lambda pair: (-abs(pair[1]), pair[0])))

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self, "layout elasticity")

    def __str__(self) -> str:
        strongest = ", ".join(f"{name} {value:+.2f}" for name, value in self.ranked[:3])
        return f"{self.layout}: step time is most sensitive to {strongest}"


def sensitivity(job: Job, cluster: Cluster, layout: Layout, *, replans: Replans | None = None) -> Sensitivity:
    """The elasticities of `layout`; `replans` finds the plans that memory_B compares, new ones if not given.

    Raises Infeasible when the layout breaks a rule.
    """
    check(layout, job)
    found = {name: hardware_elasticity(job, cluster, layout, name) for name in (*RATES, *TIMES)}
    if len(cluster.levels) > 2:
        for index in range(1, len(cluster.levels)):
            found[f"bw_{cluster.levels[index].name}"] = _level_elasticity(job, cluster, layout, (index,))
    return Sensitivity(
        job,
        cluster,
        layout,
        found
        | {"memory_B": memory_elasticity(cluster, replans or Replans(job.model, job.recipe))}
        | {"batch": batch_elasticity(job, cluster, layout), "seq": sequence_elasticity(job, cluster, layout)}
        | {name: degree_elasticity(job, cluster, layout, name) for name in DEGREES},
    )


def hardware_elasticity(job: Job, cluster: Cluster, layout: Layout, name: str) -> float | None:
    """Elasticity to one of RATES or TIMES."""
    if name == "intra_bw":
        return _level_elasticity(job, cluster, layout, (0,))
    if name == "inter_bw":
        return _level_elasticity(job, cluster, layout, tuple(range(1, len(cluster.levels))))
    slow, fast = (scaled(cluster, **{name: factor}) for factor in (1.0 / STEP, STEP))
    return _slope(_seconds(job, slow, layout), _seconds(job, fast, layout), STEP**2)


def _level_elasticity(job: Job, cluster: Cluster, layout: Layout, levels: tuple[int, ...]) -> float | None:
    """Elasticity to the bandwidth of some levels together; None without such levels."""
    if not levels:
        return None

    def at(factor: float) -> float:
        factors = [factor if index in levels else 1.0 for index in range(len(cluster.levels))]
        return _seconds(job, scaled(cluster, bandwidth=factors), layout)

    return _slope(at(1.0 / STEP), at(STEP), STEP**2)


def memory_elasticity(cluster: Cluster, replans: Replans) -> float | None:
    """Elasticity of the best plan's step time to the memory of a device; None when nothing fits in what there is."""
    now, more = (replans.fastest(scaled(cluster, memory=factor)) for factor in (1.0, MEMORY_STEP))
    if now is None or more is None:
        return None
    return _slope(now.step_time_s, more.step_time_s, MEMORY_STEP)


def batch_elasticity(job: Job, cluster: Cluster, layout: Layout) -> float | None:
    """Elasticity to the global batch at the same micro-batch."""
    return _recipe_elasticity(job, cluster, layout, "batch", layout.batch_unit)


def sequence_elasticity(job: Job, cluster: Cluster, layout: Layout) -> float | None:
    """Elasticity to the sequence length at the same number of sequences; None for images."""
    if job.images:
        return None
    unit = 2 * layout.cp * layout.tp
    return _recipe_elasticity(job, cluster, layout, "seq", unit * max(1, round(job.recipe.seq * (STEP - 1.0) / unit)))


def _recipe_elasticity(job: Job, cluster: Cluster, layout: Layout, name: str, step: int) -> float | None:
    """Elasticity to a number of the recipe that moves by `step`, to both sides where the rules allow it."""
    value = getattr(job.recipe, name)
    jobs = [_with(job, name, value + move) for move in (-step, 0, step) if value + move >= 1]
    kept = [one for one in jobs if _allowed(one, layout)]
    low, high = kept[0], kept[-1]
    if low is high:
        return None
    ratio = getattr(high.recipe, name) / getattr(low.recipe, name)
    return _slope(_seconds(low, cluster, layout), _seconds(high, cluster, layout), ratio)


def _with(job: Job, name: str, value: int) -> Job:
    changes: Json = {name: value}
    return Job(job.model, replace(job.recipe, **changes), job.devices)


def degree_elasticity(job: Job, cluster: Cluster, layout: Layout, name: str) -> float | None:
    """Elasticity to a degree of the layout or its micro-batch, from half to double where the rules allow it."""
    ends = [one for one in (half(job, layout, name), layout, double(job, layout, name)) if one is not None]
    low, high = ends[0], ends[-1]
    if low is high:
        return None
    ratio = getattr(high, name) / getattr(low, name)
    return _slope(_seconds(job, cluster, low), _seconds(job, cluster, high), ratio)


def half(job: Job, layout: Layout, name: str) -> Layout | None:
    """`layout` with half the degree `name`, None where that breaks a rule."""
    value = getattr(layout, name)
    changes = {name: value // 2} | ({"dp": layout.dp * 2} if name in SWAPPED else {})
    return _if_allowed(job, layout, changes) if value % 2 == 0 else None


def double(job: Job, layout: Layout, name: str) -> Layout | None:
    """`layout` with twice the degree `name`, None where that breaks a rule."""
    swapped = name in SWAPPED
    if swapped and layout.dp % 2:
        return None
    changes = {name: getattr(layout, name) * 2} | ({"dp": layout.dp // 2} if swapped else {})
    return _if_allowed(job, layout, changes)


def _if_allowed(job: Job, layout: Layout, changes: Json) -> Layout | None:
    changed = replace(layout, **changes)
    return changed if _allowed(job, changed) else None


def _allowed(job: Job, layout: Layout) -> bool:
    """Whether the layout keeps every rule."""
    return not any(bool(broken.any()) for broken in broken_rules(layout.grid(), job).values())


def _seconds(job: Job, cluster: Cluster, layout: Layout) -> float:
    return float(price_step(job, cluster, layout.grid()).step_time_s)


def _slope(low_s: float, high_s: float, ratio: float) -> float:
    """Difference of logarithms over that of the number; exactly 0 when the time does not change."""
    return 0.0 if low_s == high_s else math.log(high_s / low_s) / math.log(ratio)
