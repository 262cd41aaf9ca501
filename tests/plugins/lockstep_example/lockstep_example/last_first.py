"""GPipe whose backward passes begin with the last micro-batch, as the figure of its paper shows them.

Time and memory are GPipe's: the passes of one kind are equal, whatever their order.

Source: Huang et al. 2019, "GPipe" (arXiv 1811.06965), figure 2.
"""

from __future__ import annotations

from lockstep.simulate.parallel.pipeline.schedule import Domain, Order, Schedule
from lockstep.simulate.parallel.pipeline.schedules.gpipe import makespan_s, peak_live


def order(stages: int, microbatches: int, chunks: int = 1) -> Order:
    """All F, then all B in reverse."""
    lane = [("F", i, 0) for i in range(microbatches)] + [("B", i, 0) for i in reversed(range(microbatches))]
    return [list(lane) for _ in range(stages)]


LAST_FIRST = Schedule(
    name="last-first",
    source="Huang et al. 2019 (arXiv 1811.06965), figure 2",
    formula="(m + p - 1)(f + b) for equal stages",
    exact="always",
    domain=Domain(ends=("first", "last"), overlapped=True),
    makespan=makespan_s,
    peak_live=peak_live,
    order=order,
)
