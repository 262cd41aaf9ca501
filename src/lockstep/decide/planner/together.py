"""`Together`: what answers about several layouts of a job have that is priced once for all of them, when it is asked.

Layouts in one grid share one pass of the formulas: five layouts cost little more than one. So do layouts of several
jobs that differ in nothing but the global batch, of which `ends_with_batches` gives what their intervals depend on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TypeVar

import numpy as np

from lockstep.base.records import dataclass, field, fields, replace
from lockstep.decide.planner.interval import Ends, ends_of
from lockstep.describe.hardware import Cluster
from lockstep.price.layout import Job, Layout, Memory, grids_of
from lockstep.price.step import Step, hidings
from lockstep.simulate.parallel.piece import Hiding

Result = TypeVar("Result", Step, Memory, Ends)


def entry(several: Result, place: int, count: int) -> Result:
    """One entry of a result that holds arrays of `count` entries, or numbers that are the same for all."""
    values = {f.name: getattr(several, f.name) for f in fields(several)}
    return replace(several, **{name: np.broadcast_to(value, (count,))[place] for name, value in values.items()})


@dataclass(frozen=True)
class Together:
    """Several layouts of a job on a cluster."""

    job: Job
    cluster: Cluster
    layouts: Sequence[Layout]
    known: Mapping[Layout, Ends] = field(default_factory=dict)
    """Ends that were worked out before."""

    @cached_property
    def ends(self) -> dict[Layout, Ends]:
        """What the interval of each layout depends on."""
        found = dict(self.known)
        missing = [one for one in dict.fromkeys(self.layouts) if one not in found]
        for places, grid in grids_of(missing):
            ends = ends_of(self.job, self.cluster, grid)
            found |= {missing[place]: entry(ends, at, len(places)) for at, place in enumerate(places)}
        return found

    @cached_property
    def hiding(self) -> dict[Layout, dict[str, Hiding]]:
        """What of each layout's traffic hides beside computing, by part."""
        return dict(zip(self.layouts, hidings(self.job, self.cluster, self.layouts), strict=True))


def ends_with_batches(
    job: Job, cluster: Cluster, layouts: Mapping[int, Sequence[Layout]]
) -> dict[int, dict[Layout, Ends]]:
    """What the interval of each layout depends on, by batch, of `layouts` by batch; none places layers by hand."""
    pairs = [(batch, one) for batch, several in layouts.items() for one in dict.fromkeys(several)]
    found: dict[int, dict[Layout, Ends]] = {batch: {} for batch in layouts}
    for places, grid in grids_of([layout for _, layout in pairs]):
        here = [pairs[place] for place in places]
        ends = ends_of(job, cluster, replace(grid, batches=tuple(batch for batch, _ in here), paired=True))
        for at, (batch, layout) in enumerate(here):
            found[batch][layout] = entry(ends, at, len(here))
    return found
