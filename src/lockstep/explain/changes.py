"""`changes`: what differs between two measured runs, operation by operation.

An operation is a collective of a kind of group, with its exposed seconds, a kernel by its name, with its seconds on the
device, or idle time by cause. Seconds are means per step over whole captures, edges included, of runs with as many
steps, else over the steps used: so differences of two captures of one program are not those of where they were cut.
Classes are sums of many kernels, whose noise would hide one operation that changed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json, picked
from lockstep.explain.classes import CLASSES
from lockstep.explain.partition import Partition, partition
from lockstep.explain.seen import Seen
from lockstep.explain.steps import Window, steps_of

LEAST_FRAC = 1e-4
"""Of a step: smaller differences are not listed."""


@dataclass(frozen=True, slots=True)
class Change:
    """One operation in two runs."""

    operation: str
    kind: str
    """`communication`, a class of kernels, or `idle`."""
    before_s: float
    """Per step and rank."""
    after_s: float
    captured_before_s: float
    """In the whole capture, the mean over ranks."""
    captured_after_s: float

    @property
    def difference_s(self) -> float:
        """After less before, per step."""
        return self.after_s - self.before_s

    def to_dict(self) -> Json:
        """Plain JSON form."""
        names = "operation kind before_s after_s difference_s captured_before_s captured_after_s"
        return picked(self, names)


def changes(before: Seen, after: Seen) -> tuple[Change, ...]:
    """The operations whose seconds differ, the largest difference first."""
    whole = _captured(before), _captured(after)
    counts = tuple(len(steps_of(one.traces[0]).windows) for one in (before, after))
    if counts[0] == counts[1]:
        each = tuple({key: seconds / counts[0] for key, seconds in one.items()} for one in whole)
    else:
        each = tuple(
            {key: seconds / len(one.steps) for key, seconds in _operations(one, one.partitions).items()}
            for one in (before, after)
        )
    least_s = LEAST_FRAC * float(before.step_s.mean())
    rows = [
        Change(name, kind, *(one.get((name, kind), 0.0) for one in (*each, *whole)))
        for name, kind in sorted(set(each[0]) | set(each[1]))
    ]
    rows = [row for row in rows if abs(row.difference_s) >= least_s]
    return tuple(sorted(rows, key=lambda row: -abs(row.difference_s)))


def _captured(seen: Seen) -> dict[tuple[str, str], float]:
    """Seconds of every operation in whole captures."""
    parts = []
    for trace, arrived in zip(seen.traces, seen.aligned.arrived_s, strict=True):
        window = Window(0, float(trace.spans.start_s.min()), float(trace.spans.end_s.max()))
        parts.append((partition(trace, window, arrived),))
    return _operations(seen, parts)


def _operations(seen: Seen, partitions: Sequence[Sequence[Partition]]) -> dict[tuple[str, str], float]:
    """Seconds of every operation in all of `partitions`, the mean over ranks."""
    found: dict[tuple[str, str], float] = defaultdict(float)
    ranks = len(seen.traces)
    for trace, each in zip(seen.traces, partitions, strict=True):
        spans = trace.spans
        for one in each:
            exposed_s = one.exposed.transfer_s + np.nan_to_num(one.exposed.waiting_s)
            for i, seconds in zip(one.exposed.span.tolist(), exposed_s.tolist(), strict=True):
                kind = seen.kinds.get(trace.name(int(spans.group[i])), "other")
                op = trace.name(int(spans.op[i])) or "collective"
                found[f"{kind} {op}, exposed", "communication"] += seconds / ranks
            for name, seconds in one.idle_s.items():
                found[name, "idle"] += seconds / ranks
            inside = (spans.start_s >= one.window.start_s) & (spans.start_s < one.window.end_s) & ~spans.communicates
            total = np.bincount(spans.name[inside], (spans.end_s - spans.start_s)[inside], len(trace.names))
            kinds = dict(zip(spans.name[inside].tolist(), spans.kind[inside].tolist(), strict=True))
            for index in np.flatnonzero(total).tolist():
                found[trace.name(index), CLASSES[kinds[index]]] += float(total[index]) / ranks
    return found
