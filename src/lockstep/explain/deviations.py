"""Single deviations from the run that was described, priced: which of them would give the measured number.

A deviation with other fields is one estimate; one with a factor (a slower link, slower kernels) is solved for the
factor that gives the number. They are ordered by the logarithm of their probability,

    fit    = -(ln(q / value))^2 / 2 APART^2 + ln(prior)                 other fields
    fit    = -(ln factor)^2 / 2 spread^2 + ln(prior)                    a factor that gives the number

q the quantity as predicted with the deviation, APART how well differences between two predictions are known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache, lru_cache, partial
from typing import Any

from lockstep.base.documents.shipped import shipped_table
from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass, replace
from lockstep.base.types.plain import Json, picked
from lockstep.base.units import format_frac
from lockstep.decide.planner.estimate import Estimate, estimates
from lockstep.decide.planner.together import Together
from lockstep.decide.planner.whatif import scaled
from lockstep.describe.hardware import Cluster
from lockstep.describe.workload import model as find_model
from lockstep.describe.workload.catalog import names
from lockstep.explain.stated import Stated
from lockstep.price.layout import Job, Layout, check
from lockstep.price.step import price_step

APART = 0.08
"""Sigma of the logarithm of a predicted difference: what is left when one run is predicted from another of the same
software (`docs/validation.md`, calibrated steps)."""
CLOSER = 0.5
"""A deviation is a candidate when it leaves less than this share of the logarithm of the gap."""
MOST_LEFT = math.log(2.0)
"""Nor is one that leaves more than a factor of two."""
EQUAL = 0.5
"""Two fit equally when their fits differ by less than this."""
CHANGES = 0.01
"""A deviation that changes a step by less explains nothing."""
BETTER = 0.03
"""A variant is offered as a change when it is faster by at least this share."""
ROUNDS, TOLERANCE = 60, 1e-7
Heed = Callable[[], object]
"""What is called before each pricing; it may raise to end the work."""
KERNELS, HOST, INNER, OUTER, OUTSIDE = "kernels", "host", "inner", "outer", "outside"


def silent(*_: int) -> None:
    """Ignores the progress of the work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """One way in which a run may differ from what was described."""

    name: str
    says: str
    why: str
    prior: float
    change: str = ""
    improves: bool = False
    layout: Mapping[str, Any] | None = None
    recipe: Mapping[str, Any] | None = None
    halve: str = ""
    quarter: str = ""
    factor: str = ""
    most: float = 1.0
    spread: float = 1.0


@dataclass(frozen=True, slots=True)
class Candidate:
    """A deviation and what it would give."""

    name: str
    says: str
    why: str
    change: str
    factor: float | None
    """Of a link, kernels or the host: how many times slower; None where fields differ."""
    estimate: Estimate
    value: float
    """The quantity in question with it."""
    fit: float
    equal: bool = False
    """Whether it fits as well as the first."""

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return {
            **picked(self, "name says why change factor value"),
            "step_time_s": self.estimate.step_time_s,
            "mfu_frac": self.estimate.mfu_frac,
            "memory_B": float(self.estimate.memory.total_B),
            "fits": bool(self.estimate.memory.fits),
            **picked(self, "fit equal"),
        }


@cache
def deviations() -> tuple[Deviation, ...]:
    """All deviations of `deviations.toml`."""
    return tuple(
        Deviation(name=name, **entry) for name, entry in shipped_table("lockstep.explain", "deviations.toml").items()
    )


def candidates(stated: Stated, found: Estimate, heed: Heed = silent) -> list[Candidate]:
    """Deviations of `found` that would explain `stated`, the likeliest first; none that leaves most of the gap."""
    gap = abs(math.log(stated.value / stated.predicted(found)))
    fields = [_candidate(one, other, stated) for one, other in _by_fields(found, heed)]
    models = [_candidate(one, other, stated) for one, other in _other_models(found, heed)]
    tried = [*fields, *_by_factors(stated, found, heed), *models]
    near = [one for one in tried if abs(math.log(stated.value / one.value)) < min(CLOSER * gap, MOST_LEFT)]
    near.sort(key=lambda one: -one.fit)
    return [replace(one, equal=place > 0 and near[0].fit - one.fit < EQUAL) for place, one in enumerate(near)]


def faster(stated: Stated, found: Estimate, heed: Heed = silent) -> list[Candidate]:
    """Variants of the layout that fit in memory and are faster by at least BETTER, the fastest first.

    Their `value` is of the quantity of `stated`.
    """
    offered = [(one, other) for one, other in _by_fields(found, heed) if one.improves and other.memory.fits]
    better = [pair for pair in offered if pair[1].step_time_s < found.step_time_s * (1 - BETTER)]
    return [_candidate(*pair, stated) for pair in sorted(better, key=lambda pair: pair[1].step_time_s)]


def _by_fields(found: Estimate, heed: Heed) -> list[tuple[Deviation, Estimate]]:
    """Those with other fields of recipe or layout, as far as they keep the rules and change anything."""
    known = {one.name: one for one in deviations() if not one.factor}
    asked: dict[Job, dict[str, Layout]] = {}
    for name, one in known.items():
        with suppress(BadInput):
            job, layout = _changed(one, found)
            if (job, layout) != (found.job, found.layout):
                asked.setdefault(job, {})[name] = layout
    priced: dict[str, Estimate] = {}
    for job, layouts in asked.items():
        heed()
        # Not every device has every number format.
        with suppress(BadInput):
            priced |= zip(layouts, _priced(job, found.cluster, tuple(layouts.values())), strict=True)
    others = ((one, priced[name]) for name, one in known.items() if name in priced)
    return [(one, other) for one, other in others if abs(other.step_time_s / found.step_time_s - 1) > CHANGES]


@lru_cache(maxsize=64)
def _priced(job: Job, cluster: Cluster, layouts: tuple[Layout, ...]) -> list[Estimate]:
    """Layouts in one pass. Whatever was measured, the same variants of a run are asked for."""
    return estimates(job, cluster, layouts)


def _changed(one: Deviation, found: Estimate) -> tuple[Job, Layout]:
    """The run that it makes of another. Raises BadInput where that breaks a rule."""
    layout = replace(found.layout, **(one.layout or {}))
    for name, part in ((one.halve, 2), (one.quarter, 4)):
        if name:
            layout = _divided(layout, name, part)
    job = replace(found.job, recipe=found.job.recipe.having(**(one.recipe or {})))
    check(layout, job)
    return job, layout


def _divided(layout: Layout, name: str, part: int) -> Layout:
    degree = getattr(layout, name)
    if degree % part or layout.stages:
        raise BadInput(f"{name} {degree} does not divide by {part}")
    changed = {name: degree // part, "dp": layout.dp * part}
    if changed.get("pp") == 1:
        changed["vpp"] = 1
    schedule = "1f1b" if changed.get("pp") == 1 else layout.schedule
    parallel = layout.sequence_parallel and changed.get("tp") != 1
    return replace(layout, **changed, schedule=schedule, sequence_parallel=parallel)


def _candidate(one: Deviation, other: Estimate, stated: Stated, factor: float | None = None) -> Candidate:
    value = stated.value if one.factor == OUTSIDE else stated.predicted(other)
    off = math.log(stated.value / value) / APART if factor is None else math.log(factor) / one.spread
    says = one.says if factor is None else f"{one.says}: {_how_much(one, factor)}"
    return Candidate(one.name, says, one.why, one.change, factor, other, value, math.log(one.prior) - off**2 / 2)


def _how_much(one: Deviation, factor: float) -> str:
    """A factor in words; of a link, what is left of its rate, of time outside, its share."""
    if one.factor == OUTSIDE:
        return f"{format_frac(1 - 1 / factor, 2)} of it"
    left = f", {format_frac(1 / factor, 2)} of the rate taken for it" if one.factor in (INNER, OUTER) else ""
    return f"{factor:.3g} times{left}"


def _by_factors(stated: Stated, found: Estimate, heed: Heed) -> Iterator[Candidate]:
    """Those with a factor, at the one that gives the measured seconds; none for a step faster than predicted."""
    wanted_s = stated.step_time_s(found)
    if wanted_s <= found.step_time_s:
        return
    for one in deviations():
        if one.factor == OUTSIDE and wanted_s < one.most * found.step_time_s:
            yield _candidate(one, found, stated, wanted_s / found.step_time_s)
        level = _level(one, found.cluster) if one.factor in (INNER, OUTER) else None
        if one.factor in ("", OUTSIDE) or (one.factor in (INNER, OUTER) and level is None):
            continue
        heed()
        slowed = partial(_slowed, found, one.factor, level)
        solved = _solved(slowed, found, wanted_s, one.most)
        if solved is not None:
            yield _candidate(one, solved[1], stated, solved[0])


def _level(one: Deviation, cluster: Cluster) -> int | None:
    """The level of the network that a deviation is about; None where the cluster has no such one."""
    if one.factor == INNER:
        return 0
    return len(cluster.levels) - 1 if len(cluster.levels) > 1 else None


def _slowed(found: Estimate, what: str, level: int | None, factor: float) -> Estimate:
    """The run with kernels, host or the links of one level slower by a factor; its memory stays as it is."""
    cluster = found.cluster
    if what == KERNELS:
        device = replace(cluster.device, efficiency=cluster.device.efficiency.slowed(factor))
        slower = replace(cluster, device=device)
    elif what == HOST:
        slower = scaled(cluster, host=factor)
    else:
        rates = [1.0] * len(cluster.levels)
        rates[level or 0] = 1.0 / factor
        slower = scaled(cluster, bandwidth=rates)
    step = price_step(found.job, slower, found.layout.grid())
    return replace(found, cluster=slower, step=step, together=Together(found.job, slower, [found.layout]))


def _solved(
    slowed: Callable[[float], Estimate], found: Estimate, wanted_s: float, most: float
) -> tuple[float, Estimate] | None:
    """The factor at which a step takes `wanted_s`, and that step, by false position (Illinois); None beyond `most`.

    Seconds are linear in a factor but for what hides them, so the first guess is mostly right.
    """
    low, high = 1.0, most
    other = slowed(high)
    at_low, at_high = found.step_time_s - wanted_s, other.step_time_s - wanted_s
    if at_high < 0 or at_low >= 0:
        return None
    was = 0.0
    for _ in range(ROUNDS):
        middle = (low * at_high - high * at_low) / (at_high - at_low)
        other = slowed(middle)
        here = other.step_time_s - wanted_s
        if abs(here) < TOLERANCE * wanted_s:
            break
        # An end that stays twice counts half.
        kept = 0.5 if here * was > 0 else 1.0
        if here < 0:
            low, at_low, at_high = middle, here, kept * at_high
        else:
            high, at_high, at_low = middle, here, kept * at_low
        was = here
    return middle, other


OTHER_MODEL = Deviation(
    name="another-model",
    says="",
    why="a configuration that was not changed trains another size",
    change="compare the layers and widths that the log prints with those of the model",
    prior=0.3,
)


def _other_models(found: Estimate, heed: Heed) -> Iterator[tuple[Deviation, Estimate]]:
    """Other sizes of the same family, in the same layout."""
    own = found.job.model.name
    family = own.partition("-")[0]
    for name in names():
        if name == own or name.partition("-")[0] != family:
            continue
        job = Job(find_model(name), found.job.recipe, found.job.devices)
        with suppress(BadInput):
            check(found.layout, job)
            heed()
            other = _priced(job, found.cluster, (found.layout,))[0]
            yield replace(OTHER_MODEL, says=f"another model: {name}"), other
