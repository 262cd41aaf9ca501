"""`see`: traces of a run on one clock, cut into steps and their parts; what every other part of a diagnosis reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Floats
from lockstep.explain.align import Aligned, align
from lockstep.explain.answer import UNCLEAR
from lockstep.explain.cycles import joined
from lockstep.explain.groups import kinds_of
from lockstep.explain.partition import Partition, partition
from lockstep.explain.steps import Window, used
from lockstep.explain.trace import RankTrace
from lockstep.price.layout import Layout

UNCLASSIFIED_FRAC = 0.05
ONE_RANK = "with one rank, waiting and transfer of communication cannot be told apart"


@dataclass(frozen=True)
class Seen:
    """Traces on one clock with their parts: what all else is read from."""

    aligned: Aligned
    kinds: Mapping[str, str]
    partitions: tuple[tuple[Partition, ...], ...]
    """Of every trace, of every step used."""
    not_known: tuple[str, ...]

    @property
    def traces(self) -> tuple[RankTrace, ...]:
        """The traces, on one clock."""
        return self.aligned.traces

    @property
    def steps(self) -> tuple[int, ...]:
        """Numbers of the steps used."""
        return tuple(one.window.step for one in self.partitions[0])

    @property
    def step_s(self) -> Floats:
        """Seconds of every step, the mean over ranks, `[steps]`."""
        seconds: Floats = np.array([[one.window.seconds for one in each] for each in self.partitions])
        mean: Floats = np.mean(seconds, axis=0)
        return mean

    def parts(self) -> list[list[dict[str, float]]]:
        """Seconds by part of every trace and step."""
        return [
            [one.parts(trace, self.kinds) for one in each]
            for trace, each in zip(self.traces, self.partitions, strict=True)
        ]


def see(
    traces: Sequence[RankTrace],
    layout: Layout | None = None,
    given: Mapping[str, str] | None = None,
    steps: Sequence[int] | None = None,
) -> Seen:
    """Traces aligned and partitioned. `given` names kinds of groups, `steps` chooses steps.

    Raises BadInput for traces that do not belong together, or have none of the steps.
    """
    traces = joined(traces)
    aligned = align(traces)
    kinds, notes = kinds_of(aligned.traces, layout, given)
    partitions = []
    for trace, windows, arrived in zip(aligned.traces, aligned.windows, aligned.arrived_s, strict=True):
        partitions.append(tuple(partition(trace, one, arrived, kinds) for one in _chosen(trace, windows, steps)))
    alone = (ONE_RANK,) if len(traces) == 1 and bool(aligned.traces[0].spans.communicates.any()) else ()
    graphs = tuple(
        "kernels ran from CUDA graphs, so nobody knows whether the host was late" for one in traces if one.graphs
    )[:1]
    unclear = tuple(
        f"{one.unclassified_frac:.0%} of the kernel time of {one.called} {UNCLEAR}: "
        f"{', '.join(list(one.unclassified)[:3])}"
        for one in traces
        if one.unclassified_frac > UNCLASSIFIED_FRAC
    )
    # What is not understood comes first: all other numbers are without it.
    return Seen(aligned, kinds, tuple(partitions), (*unclear, *alone, *graphs, *notes, *aligned.not_known))


def _chosen(trace: RankTrace, windows: tuple[Window, ...], steps: Sequence[int] | None) -> tuple[Window, ...]:
    if steps is None:
        return used(windows)
    found = tuple(one for one in windows if one.step in set(steps))
    if not found:
        there = f"{windows[0].step} to {windows[-1].step}"
        raise BadInput(f"has none of the requested steps; it has {there}", trace.path)
    return found
