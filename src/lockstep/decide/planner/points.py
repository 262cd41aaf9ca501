"""Every layout of a space that keeps the rules, with its time and memory: what a search chose from.

The same formulas as `search`, on the same candidates; only here layouts that do not fit are timed too, and nothing is
left out. So counts and front of the points are those of the search, which a test asserts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from lockstep.base.records import dataclass, replace
from lockstep.base.types.arrays import Array, Bools, Floats
from lockstep.decide.planner.candidates import candidates
from lockstep.decide.planner.space import Space
from lockstep.describe.hardware import Cluster
from lockstep.price.layout import Job, Layout, LayoutGrid, host_capacity_B

FITS, NO_MEMORY, NO_HOST_MEMORY, REFUSED = range(4)
Refuses = Callable[[Layout], str]
"""Why a layout cannot be run, empty where it can."""


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """Layouts at some places of a grid, and their scores; arrays are [points]."""

    grid: LayoutGrid
    places: Array
    """Of the layouts, in the flattened grid."""
    step_time_s: Floats
    memory_B: Floats
    """On the fullest rank."""
    why: Array
    """FITS, what a layout exceeds: NO_MEMORY, NO_HOST_MEMORY, or from REFUSED on the place in `refusals`."""
    refusals: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.places)

    def field(self, name: str) -> Array:
        """One field of every layout, words as the codes of `LayoutGrid`."""
        return np.broadcast_to(getattr(self.grid, name), self.grid.shape).reshape(-1)[self.places]

    def only(self, kept: Bools) -> Points:
        """The points where `kept` is true."""
        some = {name: getattr(self, name)[kept] for name in ("places", "step_time_s", "memory_B", "why")}
        return replace(self, **some)

    def layouts(self) -> list[Layout]:
        """Every layout."""
        return self.grid.layouts(self.places)


def points(job: Job, cluster: Cluster, space: Space, refuses: Refuses | None = None) -> Iterator[Points]:
    """The layouts of each stage count and placement in turn, worked out when they are asked for.

    `refuses` is asked of every layout that fits.
    """
    for some in candidates(job, space):
        for sized in some.grids:
            grid, places = sized.grid, np.flatnonzero(sized.valid)
            seconds = sized.step_time_s(job, cluster).reshape(-1)
            memory_B, host_B = (size_B.reshape(-1)[places] for size_B in (sized.memory_B, sized.host_B))
            beyond = np.where(host_B > host_capacity_B(cluster), NO_HOST_MEMORY, FITS)
            why = np.where(memory_B > cluster.device.memory_B, NO_MEMORY, beyond)
            found = Points(grid, places, seconds[places], memory_B, why)
            yield found if refuses is None else _asked(found, refuses)


def _asked(some: Points, refuses: Refuses) -> Points:
    """The same with what is refused."""
    fits = np.flatnonzero(some.why == FITS)
    reasons = [refuses(layout) for layout in some.grid.layouts(some.places[fits])]
    codes = {"": FITS} | {text: code for code, text in enumerate(sorted({*reasons} - {""}), REFUSED)}
    why = some.why.copy()
    why[fits] = [codes[text] for text in reasons]
    return replace(some, why=why, refusals=tuple(codes)[1:])
