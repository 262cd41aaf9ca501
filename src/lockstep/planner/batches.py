"""`Batches`: estimates of one layout that differ in nothing but the global batch, priced in one pass of the formulas.

The batch enters a step as the number of micro-batches alone, over which the formulas broadcast, so that many batches
cost little more than one. Each gets the numbers that it would get alone, to the bit. Between the estimates of one list
the context `priced_together` holds what is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cached_property

from lockstep.errors import BadInput
from lockstep.hardware import Cluster
from lockstep.layout import Job, Layout, LayoutGrid, Memory, check, memory
from lockstep.parallel.piece import Hiding
from lockstep.planner.interval import Ends, ends_of
from lockstep.planner.together import entry
from lockstep.step import Step, grid_hidings, price_step

Key = tuple[Job, Cluster, Layout]


@dataclass(frozen=True)
class Batches:
    """One layout of a job with each of several batches."""

    job: Job
    cluster: Cluster
    layout: Layout
    batches: tuple[int, ...]

    @cached_property
    def grid(self) -> LayoutGrid:
        """The layout with all batches."""
        return replace(self.layout.grid(), batches=self.batches)

    @cached_property
    def steps(self) -> Step:
        """Seconds of every step."""
        return price_step(self.job, self.cluster, self.grid)

    @cached_property
    def memories(self) -> Memory:
        """Bytes of every step."""
        return memory(self.job, self.cluster, self.grid)

    @cached_property
    def all_ends(self) -> Ends:
        """What the intervals depend on."""
        return ends_of(self.job, self.cluster, self.grid)

    @cached_property
    def all_hiding(self) -> list[dict[str, Hiding]]:
        """What of the traffic hides beside computing, by part."""
        return grid_hidings(self.job, self.cluster, self.grid, len(self.batches))


@dataclass(frozen=True, slots=True)
class OfBatch:
    """What the estimate for one of several batches is made of."""

    batches: Batches
    place: int

    @property
    def step(self) -> Step:
        """Seconds by part."""
        return entry(self.batches.steps, self.place, len(self.batches.batches))

    @property
    def memory(self) -> Memory:
        """Bytes by category."""
        return entry(self.batches.memories, self.place, len(self.batches.batches))

    @property
    def ends(self) -> dict[Layout, Ends]:
        """What the interval depends on, of the only layout."""
        return {self.batches.layout: entry(self.batches.all_ends, self.place, len(self.batches.batches))}

    @property
    def hiding(self) -> dict[Layout, dict[str, Hiding]]:
        """What of the traffic hides beside computing, of the only layout."""
        return {self.batches.layout: self.batches.all_hiding[self.place]}


@dataclass(slots=True)
class Shared:
    """What is known of estimates that are not asked yet; all have the same words but for the batch."""

    batches: Sequence[int]
    """Those that are not priced yet; none once an estimate was asked."""
    _known: dict[Key, OfBatch] = field(default_factory=dict)

    def find(self, job: Job, cluster: Cluster, layout: Layout) -> OfBatch | None:
        """One estimate, priced with those of all batches that the layout takes; None where nothing is shared.

        Raises BadInput where the layout breaks a rule.
        """
        batches, self.batches = self.batches, ()
        if batches and not layout.stages:
            check(layout, job)
            self._price(job, cluster, layout, batches)
        return self._known.pop((job, cluster, layout), None)

    def _price(self, job: Job, cluster: Cluster, layout: Layout, batches: Sequence[int]) -> None:
        jobs = {job: None}
        for batch in batches:
            with suppress(BadInput):
                other = replace(job, recipe=replace(job.recipe, batch=batch))
                check(layout, other)
                jobs[other] = None
        if len(jobs) > 1:
            priced = Batches(job, cluster, layout, tuple(one.recipe.batch for one in jobs))
            self._known = {(one, cluster, layout): OfBatch(priced, place) for place, one in enumerate(jobs)}


SHARED: ContextVar[Shared | None] = ContextVar("estimates", default=None)


@contextmanager
def priced_together(batches: Sequence[int]) -> Iterator[None]:
    """A context in which estimates with these batches, and else the same words, are priced together."""
    token = SHARED.set(Shared(tuple(dict.fromkeys(batches))))
    try:
        yield
    finally:
        SHARED.reset(token)


def shared_with_others(job: Job, cluster: Cluster, layout: Layout) -> OfBatch | None:
    """What is shared in that context; None outside of it, and for an estimate that has nothing to share."""
    shared = SHARED.get()
    return None if shared is None else shared.find(job, cluster, layout)
