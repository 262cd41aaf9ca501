"""`path`: from one run to another in single settings, each priced on what was changed before it.

    other -> ... -> this run,      change of setting i: q after it less q before it
Settings are taken in a fixed order, the model first, switches of the recipe last; one that breaks a rule by itself (a
degree that does not divide the devices yet) waits for those after it, and what remains is one last change. The changes
add up to the difference of the two predictions; what is left of the stated numbers is not explained.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass, replace
from lockstep.base.types.plain import Json, picked
from lockstep.decide.planner.estimate import Estimate, estimate
from lockstep.explain.stated import Stated
from lockstep.price.layout import Job, Layout

SETTINGS: Mapping[str, tuple[str, ...]] = {
    "pipeline stages": ("pp", "vpp", "schedule", "stages", "mtp_stage"),
    "tensor-parallel ranks": ("tp", "sequence_parallel"),
    "context-parallel ranks": ("cp",),
    "expert-parallel ranks": ("ep", "etp"),
    "sharding": ("zero", "shard"),
    "micro-batch": ("micro_batch",),
    "offload": ("offload",),
    "recomputation": ("recompute",),
}
"""Settings of the layout; `dp` follows the others."""


@dataclass(frozen=True, slots=True)
class Step:
    """One setting on the way."""

    setting: str
    before: float
    """The quantity as predicted before the setting is changed, and after."""
    after: float

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self)


@dataclass(frozen=True, slots=True)
class Point:
    """A run on the way: the estimate's three parts."""

    found: Estimate

    def with_parts(self, **parts: Any) -> Point:
        """Another model, cluster or layout, other fields of the recipe; `dp` follows the devices. Raises BadInput."""
        job, cluster, layout = self.found.job, self.found.cluster, self.found.layout
        cluster = parts.get("cluster", cluster)
        recipe = job.recipe.having(**parts.get("fields", {}))
        layout = replace(layout, **parts.get("layout", {}))
        taken = layout.tp * layout.pp * layout.cp
        if cluster.num_devices % taken:
            raise BadInput("the degrees do not divide the devices")
        layout = replace(layout, dp=cluster.num_devices // taken)
        made = Job(parts.get("model", job.model), recipe, cluster.num_devices)
        return Point(estimate(made, cluster, layout))


def path(other: Estimate, own: Estimate, like: Stated) -> tuple[Step, ...]:
    """The settings that differ, from `other` to `own`, with the quantity of `like` before and after each."""
    steps, here = list[Step](), Point(other)
    waiting = list(_changes(other, own))
    while waiting:
        for place, (name, parts) in enumerate(waiting):
            try:
                there = here.with_parts(**parts)
            except BadInput:
                continue
            steps.append(Step(name, like.predicted(here.found), like.predicted(there.found)))
            here = there
            del waiting[place]
            break
        else:
            break
    last, target = like.predicted(here.found), like.predicted(own)
    if abs(target / last - 1) > 1e-9:
        names = " and ".join(name for name, _ in waiting) or "other settings"
        steps.append(Step(names, last, target))
    return tuple(steps)


def _changes(other: Estimate, own: Estimate) -> list[tuple[str, Json]]:
    """What differs, in the order in which it is changed."""
    found: list[tuple[str, Json]] = []
    mine, theirs = own.job.recipe, other.job.recipe
    if own.job.model != other.job.model:
        found.append((f"model {own.job.model.name}", {"model": own.job.model}))
    if own.cluster != other.cluster:
        found.append((f"{own.job.devices} x {own.cluster.device.name}", {"cluster": own.cluster}))
    if (mine.seq, mine.batch) != (theirs.seq, theirs.batch):
        sizes = {"seq": mine.seq, "batch": mine.batch}
        found.append((f"batch of {mine.batch:,} sequences of {mine.seq:,}", {"fields": sizes}))
    software = mine.software.having(**picked(theirs.software.options))
    if software != theirs.software:
        sets = sorted({*software.switches, *theirs.software.switches})
        fields = {"stack": software, **{name: mine.options[name] for name in sets}}
        found.append((f"software {software.name}", {"fields": fields}))
    found += [
        (_said(name, own.layout, names), {"layout": {one: getattr(own.layout, one) for one in names}})
        for name, names in SETTINGS.items()
        if any(getattr(own.layout, one) != getattr(other.layout, one) for one in names)
    ]
    switches = {
        name: value
        for name, value in mine.options.items()
        if name not in ("seq", "batch", "notes", "stack") and value != theirs.options[name]
    }
    if switches:
        found.append((f"recipe: {', '.join(switches)}", {"fields": switches}))
    return found


def _said(name: str, layout: Layout, names: Sequence[str]) -> str:
    value = getattr(layout, names[0])
    return f"{name}: {value}"
