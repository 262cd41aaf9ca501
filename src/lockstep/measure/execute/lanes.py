"""What one rank of a program does: its operations by lane, each with what it waits for on the same rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lockstep.errors import BadInput
from lockstep.program import Kind, Program


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
    )
