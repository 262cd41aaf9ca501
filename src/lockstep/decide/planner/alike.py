"""`Alike`: plans that differ in nothing but the global batch, searched together when the first of them is asked.

Layouts, states and the seconds of a layer do not depend on the batch, so five batches cost little more than one. Each
gets the numbers that it would get alone, to the bit. Between plans of one list the context `alike` holds what is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cached_property, partial

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass, field, replace
from lockstep.decide.planner.interval import Ends
from lockstep.decide.planner.robust import robust_among
from lockstep.decide.planner.search import Findings, Takes, searches
from lockstep.decide.planner.space import Space
from lockstep.decide.planner.together import ends_with_batches
from lockstep.describe.hardware import Cluster
from lockstep.price.layout import Job, Layout

SpaceOf = Callable[[Job, Cluster], Space]
TakesOf = Callable[[Job], Takes | None]


@dataclass(frozen=True)
class Near:
    """Layouts from which plans of several batches choose, priced in one pass when the first plan asks."""

    job: Job
    cluster: Cluster
    found: Mapping[int, Findings]
    """By batch."""

    @cached_property
    def ends(self) -> dict[int, dict[Layout, Ends]]:
        """What their intervals depend on, by batch."""
        layouts = {
            batch: [scored.layout for scored in (*robust_among(one), *one.best)] for batch, one in self.found.items()
        }
        return ends_with_batches(self.job, self.cluster, layouts)

    def ends_of(self, batch: int) -> dict[Layout, Ends]:
        """The same of one batch."""
        return self.ends[batch]


@dataclass(slots=True)
class Alike:
    """What was found for plans that are not asked yet; all have the same words but for the batch."""

    batches: Sequence[int]
    _known: dict[tuple[Job, Cluster], Findings] = field(default_factory=dict)

    def find(self, job: Job, cluster: Cluster, space_of: SpaceOf, takes_of: TakesOf, top: int) -> Findings | None:
        """What a search finds, made with those of all batches that have its space; None where nothing is shared."""
        known = self._known.pop((job, cluster), None)
        if known is not None:
            return known
        space, takes = space_of(job, cluster), {job: takes_of(job)}
        for batch in self.batches if not space.split else ():
            with suppress(BadInput):
                other = replace(job, recipe=replace(job.recipe, batch=batch))
                if space_of(other, cluster) == space:
                    takes.setdefault(other, takes_of(other))
        if len(takes) == 1:
            return None
        found = dict(zip(takes, searches(list(takes), cluster, space, list(takes.values()), top=top), strict=True))
        if found[job].complete:
            near = Near(job, cluster, {other.recipe.batch: one for other, one in found.items() if one.best})
            for batch, one in near.found.items():
                one.find_ends = partial(near.ends_of, batch)
            self._known |= {(other, cluster): one for other, one in found.items() if other != job}
        return found[job]


TOGETHER: ContextVar[Alike | None] = ContextVar("together", default=None)


@contextmanager
def alike(batches: Sequence[int]) -> Iterator[None]:
    """A context in which plans with these batches, and else the same words, are searched together."""
    token = TOGETHER.set(Alike(tuple(dict.fromkeys(batches))))
    try:
        yield
    finally:
        TOGETHER.reset(token)
