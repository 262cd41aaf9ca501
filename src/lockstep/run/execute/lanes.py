"""What one rank of a program does: its operations by lane, each with what it waits for on the same rank.

`summands`: messages that are received only to be added, so that they may be added piece by piece and need no place of
their own. A program gives each of them elements of `inbox`. Where nobody else looks at these, a few pieces of scratch
that stay in the caches do as well.

`joined`: lanes that one thread serves as well as two, as sends join the lane whose operations they wait for. A send
leaves by itself once it is posted. Where each of a lane's sends waits for what comes before it on another lane,
and what comes after it there waits for the send before it, one thread that posts the sends in between never waits where
two would not. It saves a wake-up of either by the other for every message, which is most of what a small one costs.

`settled`: programs with their choices settled: a tree in segments has as many as are best for a link. Without a link
a segment would be one element, and an all-reduce of a megabyte a million messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.simulate.collectives import PlainLink, get
from lockstep.simulate.program import Kind, Program

USUAL_LINK = PlainLink(5e-5, 2e9)
"""Assumed where no link is known: loopback in round numbers. It settles choices and predicts nothing."""


@dataclass(frozen=True, slots=True)
class Task:
    """One operation on its rank."""

    id: int
    kind: Kind
    waits: tuple[int, ...]
    """Operations of other lanes of this rank that must have ended."""
    peer: int = -1
    tag: int = 0
    """Number of the message among all of the program, so that no two messages can be mistaken."""
    size_B: int = 0
    buffer: str = ""
    start: int = 0
    stop: int = 0
    source: str = ""
    source_start: int = 0
    duration_s: float = 0.0
    group: int = -1
    label: str = ""


Lane = tuple[Task, ...]


def check_runnable(program: Program) -> None:
    """Raises BadInput when a program cannot run on real ranks as it is."""
    grouped = program.kind == Kind.COLLECTIVE
    shared = np.bincount(program.group[grouped], minlength=1) if grouped.any() else np.zeros(1)
    if (shared > 1).any():
        raise BadInput("a collective as one operation has no messages to send; expand the program first")
    sizes = program.size_B[program.kind == Kind.SEND]
    if (sizes != np.rint(sizes)).any():
        raise BadInput(f"a message of {sizes[sizes != np.rint(sizes)][0]:g} B cannot be sent; give whole bytes")
    for i in np.repeat(np.arange(len(program)), np.diff(program.after_start))[_foreign(program)].tolist():
        raise BadInput(f"{program[i]} waits for another rank without a message; add one, or a barrier")


def _foreign(program: Program) -> np.ndarray:
    """Which dependencies join two ranks and are not ends of one message."""
    heads = np.repeat(np.arange(len(program)), np.diff(program.after_start))
    own = program.rank[program.after] == program.rank[heads]
    match = program.match[program.after]
    shared = (match >= 0) & (program.rank[match] == program.rank[heads])
    return np.asarray(~own & ~shared)


def lanes_of(program: Program, rank: int) -> tuple[Lane, ...]:
    """The lanes of one rank with operations, in the program's order."""
    lane = program.lane
    number = np.cumsum(program.kind == Kind.SEND) - 1
    by_lane: dict[int, list[Task]] = {}
    for i in np.flatnonzero(program.rank == rank).tolist():
        here = int(lane[i])
        waits = _own(program, rank, program.after[program.after_start[i] : program.after_start[i + 1]].tolist())
        others = tuple(j for j in waits if lane[j] != here)
        by_lane.setdefault(here, []).append(_task(program, i, others, number))
    return tuple(tuple(tasks) for _, tasks in sorted(by_lane.items()))


def _own(program: Program, rank: int, operations: Sequence[int]) -> list[int]:
    """The operations as this rank sees them: of a message at another rank, its own end."""
    return [j if program.rank[j] == rank else int(program.match[j]) for j in operations]


def _task(program: Program, i: int, waits: tuple[int, ...], number: np.ndarray) -> Task:
    kind, match = Kind(int(program.kind[i])), int(program.match[i])
    seconds = float(program.duration_s[i])
    return Task(
        id=i,
        kind=kind,
        waits=waits,
        peer=int(program.peer[i]),
        tag=int(number[match if kind == Kind.RECV else i]) if match >= 0 else 0,
        size_B=int(program.size_B[i]),
        buffer=program.name(int(program.buffer[i])),
        start=int(program.chunk_start[i]),
        stop=int(program.chunk_stop[i]),
        source=program.name(int(program.source[i])),
        source_start=int(program.source_start[i]),
        duration_s=0.0 if np.isnan(seconds) else seconds,
        group=int(program.group[i]),
        label=program.name(int(program.label[i])),
    )


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


def joined(lanes: tuple[Lane, ...]) -> tuple[tuple[Lane, ...], frozenset[int]]:
    """A rank's operations by thread, and the numbers of the sends that joined a lane of others."""
    threads = [lane for lane in lanes if not _only_sends(lane)]
    moved: set[int] = set()
    for sends in (lane for lane in lanes if _only_sends(lane)):
        others = [lane for lane in lanes if lane is not sends]
        host = next((i for i, thread in enumerate(threads) if _can_join(sends, thread, others)), None)
        if host is None:
            threads.append(sends)
        else:
            threads[host] = _in_order(sends, threads[host])
            moved.update(task.id for task in sends)
    return tuple(threads), frozenset(moved)


def _only_sends(lane: Lane) -> bool:
    return all(task.kind == Kind.SEND for task in lane)


def _in_order(sends: Lane, host: Lane) -> Lane:
    return tuple(sorted((*host, *sends), key=lambda task: task.id))


def _can_join(sends: Lane, host: Lane, others: list[Lane]) -> bool:
    """Whether nothing waits longer when the sends run on the host's thread, between its operations by number."""
    hosted, sent = {task.id for task in host}, {task.id for task in sends}
    elsewhere = {wait for lane in others for task in lane if task.id not in hosted for wait in task.waits}
    if sent & elsewhere or any(task.kind == Kind.SEND for task in host):
        return False
    order = _in_order(sends, host)
    if any(set(task.waits) - hosted for task in sends) or _looks_ahead(order):
        return False
    left = -1
    for before, after in pairwise(order):
        if after.id in sent and before.id in hosted and before.id not in after.waits:
            return False
        if after.id in hosted and before.id in sent and left >= 0 and left not in after.waits:
            return False
        left = before.id if before.id in sent else left
    return True


def _looks_ahead(order: Lane) -> bool:
    """Whether an operation waits for a later one, as numbers need not follow dependencies."""
    here = {task.id for task in order}
    return any(wait in here and wait > task.id for task in order for wait in task.waits)


def settled(
    op: str, algorithm: str, ranks: int, size_B: float, element_B: float = 4.0, link: PlainLink | None = None
) -> Program:
    """The program of an algorithm on a buffer of `size_B`. Raises UnknownName, BadInput."""
    return get(op, algorithm).program(ranks, size_B, link or USUAL_LINK, element_B)
