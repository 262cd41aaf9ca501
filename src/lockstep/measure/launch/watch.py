"""Watches the processes of a run: collects values, messages and failures, and ends what is left."""

from __future__ import annotations

import os
import pickle
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Protocol

from lockstep.measure.launch.failure import OWN_CAUSES, Failure, from_exit, run_failed
from lockstep.measure.launch.points import Board

GRACE_S = 2.0
"""How long to wait, after a rank was cut off or timed out, for the failure that explains it."""
BRIEF_S = 0.5
"""How long the others may take to say how they saw a failure that explains itself, before they are killed."""
TICK_S = 0.25


class Process(Protocol):
    """What is used of a multiprocessing process."""

    @property
    def pid(self) -> int | None: ...

    @property
    def exitcode(self) -> int | None: ...

    @property
    def sentinel(self) -> int: ...

    def join(self, timeout: float | None = None) -> None: ...


@dataclass(slots=True)
class Running:
    """One rank's process and what it has told so far."""

    number: int
    process: Process
    pipe: Connection
    value: bytes | None = None
    failure: Failure | None = None
    open: bool = True
    ended: bool = False
    stopped_since: float | None = None

    @property
    def settled(self) -> bool:
        """Whether it is known how this rank ended."""
        return self.ended and not self.open


def watch(
    running: Sequence[Running],
    board: Board,
    timeout_s: float,
    deadline_s: float | None,
    on_message: Callable[[int, Any], None] | None,
) -> list[Any]:
    """The value of every rank, by rank. Raises RunFailed after the first failure, a stop, or the deadline."""
    began = time.monotonic()
    failed_at: float | None = None
    left_at: float | None = None
    while not all(rank.settled for rank in running):
        _listen(running, board, on_message)
        now = time.monotonic()
        if failed_at is None and any(rank.failure for rank in running):
            failed_at = now
        if all(rank.value is not None for rank in running):
            # Nothing is lost when a process that has delivered does not manage to leave.
            left_at = left_at or now
            if now - left_at > GRACE_S:
                break
        if failed_at is not None and now - failed_at > (BRIEF_S if _explained(running) else GRACE_S):
            break
        if any(_stopped_longer_than(rank, timeout_s + GRACE_S, now) for rank in running):
            break
        if deadline_s is not None and now - began > deadline_s:
            _note_silent(running, board, f"did not return within {deadline_s:g} s; it was")
            break
    _note_stopped(running, board)
    if failures := [rank.failure for rank in running if rank.failure]:
        raise run_failed(failures)
    return [pickle.loads(rank.value or b"") for rank in running]


def _explained(running: Sequence[Running]) -> bool:
    """Whether a rank failed for a reason of its own."""
    return any(rank.failure.cause in OWN_CAUSES for rank in running if rank.failure)


def _listen(running: Sequence[Running], board: Board, on_message: Callable[[int, Any], None] | None) -> None:
    """Waits for one tick at most, and takes in what the ranks sent and how they ended."""
    by_handle: dict[Any, Running] = {rank.pipe: rank for rank in running if rank.open}
    by_handle |= {rank.process.sentinel: rank for rank in running if not rank.ended}
    ready = wait(list(by_handle), TICK_S)
    for rank in {id(by_handle[handle]): by_handle[handle] for handle in ready}.values():
        ended = rank.process.sentinel in ready
        if ended and not rank.ended:
            rank.process.join()
            rank.ended = True
        # What it sent before it ended is still in the pipe.
        while rank.open and rank.pipe.poll():
            _receive(rank, on_message)
        if rank.ended:
            rank.open = False
            if rank.value is None and rank.failure is None:
                rank.failure = from_exit(rank.number, rank.process.exitcode or 0, board.read(rank.number))
            _kill_group(rank)


def _receive(rank: Running, on_message: Callable[[int, Any], None] | None) -> None:
    try:
        kind, content = rank.pipe.recv()
    except (EOFError, OSError):
        rank.open = False
        return
    match kind:
        case "value":
            rank.value = content
        case "failure":
            rank.failure = content
        case _ if on_message is not None:
            on_message(rank.number, content)


def _stopped_longer_than(rank: Running, timeout_s: float, now: float) -> bool:
    """Whether a signal stopped the process and nobody has continued it for that long."""
    if rank.ended or not _is_stopped(rank):
        rank.stopped_since = None
        return False
    if rank.stopped_since is None:
        rank.stopped_since = now
    return now - rank.stopped_since > timeout_s


def _is_stopped(rank: Running) -> bool:
    """Whether /proc shows state T; False where there is no /proc."""
    try:
        text = Path(f"/proc/{rank.process.pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] == "T"


def _note_stopped(running: Sequence[Running], board: Board) -> None:
    """A rank that a signal stopped has said nothing; its peers' timeouts are its doing."""
    for rank in running:
        if not rank.ended and rank.failure is None and rank.value is None and _is_stopped(rank):
            rank.failure = Failure(rank.number, "stopped", "stopped by a signal", board.read(rank.number))


def _note_silent(running: Sequence[Running], board: Board, reason: str) -> None:
    for rank in running:
        if rank.value is None and rank.failure is None:
            rank.failure = Failure(rank.number, "silent", reason, board.read(rank.number))


def end(running: Sequence[Running]) -> None:
    """Kills what is still alive, with everything it started, and waits until it is gone."""
    for rank in running:
        if not rank.ended:
            _kill_group(rank)
    for rank in running:
        rank.process.join()
        rank.pipe.close()


def _kill_group(rank: Running) -> None:
    """SIGKILL to the rank's process group; to the process alone before it has made one."""
    if rank.process.pid is None:
        return
    try:
        os.killpg(rank.process.pid, signal.SIGKILL)
    except ProcessLookupError:
        if rank.process.exitcode is None:
            _kill(rank.process.pid)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
