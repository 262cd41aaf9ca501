"""`Draft`, the layout that the rules change one after another, and `Finding`, what a rule says about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from lockstep.base.records import dataclass, field, replace
from lockstep.describe.hardware import Cluster
from lockstep.price.layout import Job, Layout, Memory, broken_by, divisors, memory

RECOMPUTED = ("none", "selective", "full")
"""Cheapest first."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A layout on its way, with the job and the cluster it is for."""

    job: Job
    cluster: Cluster
    layout: Layout

    @property
    def node(self) -> int:
        """Devices of an innermost unit of the cluster."""
        return min(self.cluster.devices_per_unit(0), self.job.devices)

    @property
    def microbatches(self) -> int:
        """Micro-batches per step and replica."""
        return self.job.recipe.batch // (self.layout.dp * self.layout.micro_batch)

    @property
    def keeps_rules(self) -> bool:
        """Whether the layout is one at all."""
        return not broken_by(self.layout, self.job)

    @property
    def memory(self) -> Memory:
        """Bytes per device; of a batch that the replicas do not share evenly, as if each had a whole micro-batch."""
        unit = self.layout.dp * self.layout.micro_batch
        recipe = replace(self.job.recipe, batch=max(1, self.job.recipe.batch // unit) * unit)
        return memory(replace(self.job, recipe=recipe), self.cluster, self.layout.grid())

    @property
    def fits(self) -> bool:
        """Whether a device holds it."""
        return bool(self.memory.fits)

    @property
    def memory_B(self) -> float:
        """Bytes per device."""
        return float(self.memory.total_B)

    def change(self, **words: Any) -> Draft:
        """The draft with other words; `dp` takes what is left, norms are split wherever products are."""
        changed = replace(self.layout, **words)
        replicas = max(1, self.job.devices // (changed.tp * changed.pp * changed.cp))
        split = changed.tp > 1 and self.job.recipe.seq % (changed.cp * changed.tp) == 0
        return replace(self, layout=replace(changed, dp=replicas, sequence_parallel=split))

    def thinnest(self) -> Draft:
        """Everything sharded and recomputed, one sequence at a time: the least memory in these degrees."""
        return self.change(zero=3 if self.layout.dp * self.layout.cp > 1 else 0, recompute="full", micro_batch=1)

    def allowed(self, word: str, most: int | None = None) -> list[Draft]:
        """Drafts with larger (or the same) degrees of one kind that keep the rules, ascending."""
        least = getattr(self.layout, word)
        degrees = (degree for degree in divisors(self.job.devices, most) if degree >= least)
        return [draft for draft in (self.change(**{word: degree}) for degree in degrees) if draft.keeps_rules]

    def inside(self) -> list[Draft]:
        """Drafts with wider tensor parallelism (or the same) whose groups, experts' included, fill nodes evenly."""
        wider = self.allowed("tp", max(self.node, self.layout.tp))
        return [draft for draft in wider if draft.fills_nodes]

    @property
    def fills_nodes(self) -> bool:
        """Whether no tensor- or expert-parallel group that is smaller than a node straddles two."""
        return self.node % (self.layout.expert_tp * self.layout.ep) == 0


def first_that_fits(drafts: Iterable[Draft]) -> Draft | None:
    """The first draft that a device holds."""
    return next((draft for draft in drafts if draft.fits), None)


@dataclass(frozen=True, slots=True)
class Finding:
    """What a rule says: its question, the answer for this model and cluster, and why, in numbers."""

    answer: str
    """A word or two: yes, no, or what was chosen."""
    because: str
    """One sentence with this job's numbers."""
    draft: Draft
    """The draft as the rule leaves it."""
    numbers: Mapping[str, float] = field(default_factory=dict)
    """The same numbers, SI units in their names."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of the guide."""

    name: str
    question: str
    source: str
    decide: Callable[[Draft], Finding]
