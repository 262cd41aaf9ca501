"""Plays one rank of a `Program` on torch tensors: sends and receives for its messages, in the order of the program.

A send is started and waited for where an operation that comes after it needs its buffer; a receive, a reduction and a
copy are done at once. What a rank does is read from the program's columns once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from lockstep.program import Kind, Program

if TYPE_CHECKING:
    from torch import Tensor

MOST_KEPT = 512


@dataclass(frozen=True, slots=True)
class Move:
    """One operation of a rank."""

    id: int
    kind: Kind
    peer: int
    buffer: str
    source: str
    chunk: slice
    source_chunk: slice
    after: tuple[int, ...]


def play(program: Program, rank: int, buffers: Mapping[str, Tensor], count: Callable[[Tensor], None]) -> None:
    """Changes the buffers as the program says; `count` is called with what is sent. Scratch is made as needed."""
    import torch.distributed as dist

    state = dict(buffers)
    pending: dict[int, Any] = {}
    for move in _moves(program, rank):
        for other in move.after:
            _finish(pending.pop(other, None))
        target = _buffer(state, move.buffer)[move.chunk]
        match move.kind:
            case Kind.SEND:
                pending[move.id] = dist.isend(target, move.peer)
                count(target)
            case Kind.RECV:
                dist.recv(target, move.peer)
            case Kind.REDUCE:
                target += _buffer(state, move.source)[move.source_chunk]
            case _:
                target.copy_(_buffer(state, move.source)[move.source_chunk])
    for work in pending.values():
        _finish(work)


def _finish(work: Any) -> None:
    """Waits once: a second wait on a finished gloo send hangs until the group's timeout."""
    if work is not None:
        work.wait()


def _buffer(state: dict[str, Tensor], name: str) -> Tensor:
    """The buffer of that name, as long as `data` when it is scratch."""
    if name not in state:
        state[name] = state["data"].new_empty(len(state["data"]))
    return state[name]


@lru_cache(MOST_KEPT)
def _moves(program: Program, rank: int) -> tuple[Move, ...]:
    """The operations of a rank in the program's order."""
    c = program.columns
    start, stop, first = (c[name].tolist() for name in ("chunk_start", "chunk_stop", "source_start"))
    return tuple(
        Move(
            i, Kind(int(c["kind"][i])), int(c["peer"][i]), program.name(int(c["buffer"][i])),
            program.name(int(c["source"][i])), slice(start[i], stop[i]),
            slice(first[i], first[i] + stop[i] - start[i]),
            tuple(program.after[program.after_start[i] : program.after_start[i + 1]].tolist()),
        )
        for i in np.flatnonzero(c["rank"] == rank).tolist()
    )  # fmt: skip
