"""`Batches`: estimates of one layout that differ in nothing but the global batch, priced in one pass of the formulas.

The batch enters a step as the number of micro-batches alone, over which the formulas broadcast, so that many batches
cost little more than one. Each gets the numbers that it would get alone, to the bit. Between the estimates of one list
the context `priced_together` holds what is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cached_property

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass, field, fields, replace
from lockstep.base.types.arrays import Floats
from lockstep.decide.planner.interval import Ends, ends_of
from lockstep.decide.planner.space import MICRO_BATCHES
from lockstep.decide.planner.together import entry
from lockstep.describe.hardware import Cluster
from lockstep.price.layout import Job, Layout, LayoutGrid, Memory, check, grids_of, memory
from lockstep.price.step import Step, grid_hidings, price_step
from lockstep.simulate.parallel.piece import Hiding

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


@dataclass(frozen=True)
class Sized:
    """One layout with each of several micro-batches and batches, priced in one pass when it is asked.

    What a batch does not share out evenly has numbers that mean nothing.
    """

    job: Job
    cluster: Cluster
    layout: Layout
    sizes: tuple[int, ...]
    batches: tuple[int, ...]

    @cached_property
    def grid(self) -> LayoutGrid:
        """The layouts, with all batches."""
        ((_, grid),) = grids_of([replace(self.layout, micro_batch=size) for size in self.sizes])
        return grid if self.layout.stages else replace(grid, batches=self.batches)

    @cached_property
    def scores(self) -> tuple[Floats, Floats]:
        """Seconds of a step and bytes of the fullest rank, by place."""
        shape = len(self.batches), len(self.sizes)
        with np.errstate(all="ignore"):
            seconds = price_step(self.job, self.cluster, self.grid).step_time_s
            held_B = memory(self.job, self.cluster, self.grid).total_B
        return np.broadcast_to(seconds, shape).astype(float).ravel(), np.broadcast_to(held_B, shape).astype(
            float
        ).ravel()

    @cached_property
    def ends(self) -> Ends:
        """What the intervals depend on."""
        with np.errstate(all="ignore"):
            return ends_of(self.job, self.cluster, self.grid)

    def place(self, batch: int, size: int) -> int:
        """Where a batch with a micro-batch stands in flattened results."""
        return self.batches.index(batch) * len(self.sizes) + self.sizes.index(size)

    def ends_at(self, place: int) -> Ends:
        """What the interval of one depends on."""
        shape = len(self.batches), len(self.sizes)
        every = {one.name: np.broadcast_to(getattr(self.ends, one.name), shape).ravel() for one in fields(self.ends)}
        return replace(self.ends, **{name: values[place] for name, values in every.items()})


@dataclass(slots=True)
class Shared:
    """What is known of estimates that are not asked yet; all have the same words but for the batch."""

    batches: Sequence[int]
    sized: dict[tuple[Cluster, Layout], Sized] = field(default_factory=dict)
    """What `micro_batch.py` knows of a layout with each micro-batch and each of the batches."""
    _priced: set[tuple[Cluster, Layout]] = field(default_factory=set)
    _known: dict[Key, OfBatch] = field(default_factory=dict)

    def find(self, job: Job, cluster: Cluster, layout: Layout) -> OfBatch | None:
        """One estimate, priced with those of all batches that the layout takes; None where nothing is shared.

        Raises BadInput where the layout breaks a rule.
        """
        if (cluster, layout) not in self._priced and not layout.stages:
            self._priced.add((cluster, layout))
            check(layout, job)
            self._price(job, cluster, layout, self.batches)
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
            self._known |= {(one, cluster, layout): OfBatch(priced, place) for place, one in enumerate(jobs)}


SHARED: ContextVar[Shared | None] = ContextVar("estimates", default=None)


@contextmanager
def priced_together(batches: Sequence[int]) -> Iterator[None]:
    """A context in which estimates with these batches, and else the same words, are priced together."""
    token = SHARED.set(Shared(tuple(dict.fromkeys(batches))))
    try:
        yield
    finally:
        SHARED.reset(token)


def sized_with_others(job: Job, cluster: Cluster, layout: Layout, sizes: Sequence[int]) -> dict[int, tuple[Sized, int]]:
    """By micro-batch of `sizes` what is known of a layout with it, and where; in that context of all batches at once.

    A layout with layers placed by hand is priced alone with each.
    """
    shared, batch = SHARED.get(), job.recipe.batch
    if layout.stages:
        return {size: (Sized(job, cluster, layout, (size,), (batch,)), 0) for size in sizes}
    if shared is None or batch not in shared.batches:
        priced = Sized(job, cluster, layout, tuple(sizes), (batch,))
    else:
        key = cluster, replace(layout, micro_batch=1)
        if key not in shared.sized:
            shared.sized[key] = Sized(job, cluster, layout, MICRO_BATCHES, tuple(shared.batches))
        priced = shared.sized[key]
    return {size: (priced, priced.place(batch, size)) for size in sizes}


def shared_with_others(job: Job, cluster: Cluster, layout: Layout) -> OfBatch | None:
    """What is shared in that context; None outside of it, and for an estimate that has nothing to share."""
    shared = SHARED.get()
    return None if shared is None else shared.find(job, cluster, layout)
