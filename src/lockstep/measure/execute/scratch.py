"""Messages that are received only to be added, so that they may be added piece by piece and need no place of their own.

A program gives each of them elements of `inbox`. Where nobody else looks at these, a few pieces of scratch that stay in
the caches do as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from lockstep.measure.execute.lanes import Lane, Task
from lockstep.program import Kind


@dataclass(frozen=True, slots=True)
class Span:
    """Elements [start, stop) of a buffer."""

    buffer: str
    start: int
    stop: int

    def meets(self, other: Span) -> bool:
        """Whether the two share an element."""
        return self.buffer == other.buffer and self.start < other.stop and other.start < self.stop


def summands(lanes: tuple[Lane, ...]) -> dict[int, Task]:
    """By number of a receive on this rank: the reduction that adds what it brought and could do so on arrival."""
    pairs = {recv.id: reduce for lane in lanes for recv, reduce in pairwise(lane) if _adds_on_arrival(reduce, recv)}
    own = pairs.keys() | {reduce.id for reduce in pairs.values()}
    seen = [span for lane in lanes for task in lane if task.id not in own for span in _spans(task)]
    hulls = {buffer: _hull(buffer, pairs) for buffer in {reduce.source for reduce in pairs.values()}}
    private = {buffer for buffer, hull in hulls.items() if not any(hull.meets(span) for span in seen)}
    return {number: reduce for number, reduce in pairs.items() if reduce.source in private}


def _adds_on_arrival(following: Task, received: Task) -> bool:
    """Whether the operation after a receive on its lane adds exactly what was received, and waits for nothing else."""
    return (
        received.kind == Kind.RECV
        and following.kind == Kind.REDUCE
        and not following.waits
        and following.source == received.buffer
        and following.source_start == received.start
        and following.stop - following.start == received.stop - received.start
    )


def _hull(buffer: str, pairs: dict[int, Task]) -> Span:
    """Where all summands of a buffer lie."""
    here = [reduce for reduce in pairs.values() if reduce.source == buffer]
    ends = [reduce.source_start + reduce.stop - reduce.start for reduce in here]
    return Span(buffer, min(reduce.source_start for reduce in here), max(ends))


def _spans(task: Task) -> Iterator[Span]:
    """What an operation reads or writes."""
    if task.buffer:
        yield Span(task.buffer, task.start, task.stop)
    if task.source:
        yield Span(task.source, task.source_start, task.source_start + task.stop - task.start)
