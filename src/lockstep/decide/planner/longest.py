"""Memory of an update in which one sequence is the longest that a step may bring.

Updates are priced at the mean length, and a micro-batch holds as many tokens as so many sequences of it. Answers have a
tail: the longest is alone in its micro-batch, and what it keeps may be more than all that a usual micro-batch keeps; in
software that pads, a micro-batch with it is as long in all its sequences. A layout fits where both do. `Longest` is
training software, or none, whose layouts must also hold that sequence.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.errors import Infeasible
from lockstep.base.records import dataclass, replace
from lockstep.base.types.arrays import Number
from lockstep.decide.planner.candidates import AlsoHeld
from lockstep.decide.planner.search import Takes
from lockstep.decide.planner.software import Software
from lockstep.decide.planner.space import Space
from lockstep.describe.hardware import Cluster
from lockstep.price.layout import Job, Layout, LayoutGrid, memory

WHOLE = 256
"""Tokens that sequences are rounded up to: what any tensor- and context-parallel ranks divide."""


def longest_B(job: Job, cluster: Cluster, grid: LayoutGrid, tokens: int, pads: bool = False) -> Number:
    """Bytes of the fullest rank of every layout while a sequence of so many tokens is alone in its micro-batch, or,
    where software `pads`, all others of its micro-batch are as long.
    """
    long = replace(job, recipe=replace(job.recipe, seq=-(-tokens // WHOLE) * WHOLE))
    alone = np.ones((1,) * grid.micro_batch.ndim, dtype=int)
    with np.errstate(all="ignore"):  # of layouts that keep no rule
        held_B: Number = memory(long, cluster, grid if pads else replace(grid, micro_batch=alone)).total_B
    return held_B


@dataclass(frozen=True, slots=True)
class Longest(Software):
    """Software, or any where `inner` is None, of whose layouts only those are taken that hold the longest sequence."""

    inner: Software | None
    tokens: int
    cluster: Cluster
    pads: bool = False

    @property
    def version(self) -> str:
        """Of the software."""
        return "the trainer" if self.inner is None else self.inner.version

    def narrowed(self, space: Space) -> Space:
        """What the software has of `space`."""
        return space if self.inner is None else self.inner.narrowed(space)

    def check(self, job: Job) -> None:
        """Raises Infeasible where the software can run no layout."""
        if self.inner is not None:
            self.inner.check(job)

    def also_B(self, job: Job) -> AlsoHeld:
        """What layouts hold with the longest sequence."""
        return lambda grid: longest_B(job, self.cluster, grid, self.tokens, self.pads)

    def takes(self, job: Job) -> Takes:
        """Whether the software can run a layout of `job`."""
        return (lambda layout: True) if self.inner is None else self.inner.takes(job)

    def why_not(self, job: Job, layout: Layout) -> Infeasible | None:
        """Every reason why the software cannot run a layout; None where it can."""
        return None if self.inner is None else self.inner.why_not(job, layout)
