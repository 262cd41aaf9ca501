"""Named points of a run: where a rank is, so that its death can say where, and where faults fire in tests.

`point("mid_reduce_scatter:3")` writes the name into memory shared with the launcher, which survives SIGKILL; outside a
launched rank it does nothing. A `Fault` fires in the rank itself when it reaches its point, so no test needs a sleep.
"""

from __future__ import annotations

import mmap
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from lockstep.base.errors import UnknownName
from lockstep.base.records import dataclass

SLOT_B = 128
"""Bytes of the board per rank: one length byte and a name."""
ACTIONS = ("kill", "stop", "raise", "exit")


@dataclass(frozen=True, slots=True)
class Fault:
    """What befalls one rank at one point: SIGKILL, SIGSTOP, an exception, or an exit that reports success."""

    rank: int
    point: str
    action: str

    def __post_init__(self) -> None:
        if self.action not in ACTIONS:
            raise UnknownName("fault", self.action, ACTIONS)

    def fire(self) -> None:
        """Does it to the calling process."""
        match self.action:
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "stop":
                os.kill(os.getpid(), signal.SIGSTOP)
            case "raise":
                raise InjectedFault(f"injected at {self.point}")
            case _:
                _leave()


class InjectedFault(Exception):
    """The exception of a `Fault` with the action `raise`."""


def _leave() -> NoReturn:
    os._exit(0)


class Board:
    """The current point of every rank in a file mapped by the launcher and the ranks; without one, for this process."""

    def __init__(self, path: Path | None, ranks: int) -> None:
        if path is None:
            self._memory = mmap.mmap(-1, SLOT_B * ranks)
            return
        if not os.path.exists(path):
            path.write_bytes(bytes(SLOT_B * ranks))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), SLOT_B * ranks)

    def write(self, rank: int, name: str) -> None:
        """Notes that `rank` is at `name`."""
        text = name.encode()[: SLOT_B - 1]
        start = rank * SLOT_B
        self._memory[start + 1 : start + 1 + len(text)] = text
        self._memory[start] = len(text)

    def read(self, rank: int) -> str:
        """Where `rank` is; empty before its first point."""
        start = rank * SLOT_B
        return self._memory[start + 1 : start + 1 + self._memory[start]].decode(errors="replace")

    def close(self) -> None:
        """Unmaps the file."""
        self._memory.close()


@dataclass(slots=True)
class _Here:
    """What `point` knows in a rank's process."""

    rank: int
    board: Board | None
    faults: dict[str, Fault]


_here: _Here | None = None


def enter(rank: int, board: Board | None, faults: Sequence[Fault]) -> None:
    """Makes this process rank `rank`: its points go to the board and its faults are armed."""
    global _here
    _here = _Here(rank, board, {fault.point: fault for fault in faults if fault.rank == rank})


def leave() -> None:
    """Makes this process nobody's rank again."""
    global _here
    _here = None


def point(name: str) -> None:
    """Says that this rank has reached `name`, such as `before_rendezvous` or `mid_reduce_scatter:3`."""
    if _here is None:
        return
    if _here.board is not None:
        _here.board.write(_here.rank, name)
    if fault := _here.faults.get(name):
        sys.stdout.flush()
        fault.fire()


def in_words(name: str) -> str:
    """`mid_reduce_scatter:3` as `during reduce-scatter step 3`; `before_commit` as `before commit`."""
    if not name:
        return "before its first point"
    text, _, step = name.partition(":")
    when, _, what = text.partition("_")
    when = "during" if when == "mid" else when
    what = what.replace("_", "-")
    if step:
        what = f"{what.removesuffix('step').rstrip('-')} step {step}".strip()
    return f"{when} {what}".strip()
