"""Watches the processes of a run: collects values, messages and failures, and ends what is left.

`Patience` decides how long; everything else here waits for processes or reads what they have sent.
"""

from __future__ import annotations

import os
import pickle
import signal
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, Protocol

from lockstep.base.records import dataclass, field
from lockstep.run.launch.failure import OWN_CAUSES, Failure, from_exit, run_failed
from lockstep.run.launch.keeper import descendants, kill_all, kill_group
from lockstep.run.launch.mail import Inbox
from lockstep.run.launch.points import Board

GRACE_S = 2.0
"""How long to wait, after a rank was cut off or timed out, for the failure that explains it."""
BRIEF_S = 0.5
"""How long the others may take to say how they saw a failure that explains itself, before they are killed."""
TICK_S = 0.25
KEEPER_S = 10.0
"""How long a keeper may take to end a rank."""


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
    """Its keeper."""
    inbox: Inbox
    pid: int | None = None
    """Its own, once it has told."""
    value: bytes | None = None
    failure: Failure | None = None
    ended: bool = False

    @property
    def settled(self) -> bool:
        """Whether it is known how this rank ended."""
        return self.ended and not self.inbox.open


@dataclass(slots=True)
class Patience:
    """How long a run is still waited for: plain state, told what is known of the ranks and what time it is."""

    timeout_s: float
    deadline_s: float | None
    began_s: float
    failed_at_s: float | None = None
    delivered_at_s: float | None = None
    stopped_at_s: dict[int, float] = field(default_factory=dict)
    """By rank that a signal has stopped and that has not been continued."""

    def end(self, running: Sequence[Running], stopped: Collection[int], now_s: float) -> str | None:
        """Why nothing more is waited for: delivered, failed, stopped or late; None while there is patience."""
        if self.failed_at_s is None and any(rank.failure for rank in running):
            self.failed_at_s = now_s
        if self.delivered_at_s is None and all(rank.value is not None for rank in running):
            self.delivered_at_s = now_s
        self.stopped_at_s = {rank: self.stopped_at_s.get(rank, now_s) for rank in stopped}
        # Nothing is lost when a process that has delivered does not manage to leave.
        if self.delivered_at_s is not None and now_s - self.delivered_at_s > GRACE_S:
            return "delivered"
        if self.failed_at_s is not None and now_s - self.failed_at_s > (BRIEF_S if _explained(running) else GRACE_S):
            return "failed"
        if any(now_s - since_s > self.timeout_s + GRACE_S for since_s in self.stopped_at_s.values()):
            return "stopped"
        return "late" if self.deadline_s is not None and now_s - self.began_s > self.deadline_s else None


def watch(
    running: Sequence[Running],
    board: Board,
    timeout_s: float,
    deadline_s: float | None,
    on_message: Callable[[int, Any], None] | None,
) -> list[Any]:
    """The value of every rank, by rank. Raises RunFailed after the first failure, a stop, or the deadline."""
    patience = Patience(timeout_s, deadline_s, time.monotonic())
    end: str | None = None
    while end is None and not all(rank.settled for rank in running):
        _listen(running, board, on_message)
        end = patience.end(running, [rank.number for rank in running if _is_stopped(rank)], time.monotonic())
    if end == "late":
        _note_silent(running, board, f"did not return within {deadline_s:g} s; it was")
    _note_stopped(running, board)
    if failures := [rank.failure for rank in running if rank.failure]:
        raise run_failed(failures)
    return [pickle.loads(rank.value or b"") for rank in running]


def _explained(running: Sequence[Running]) -> bool:
    """Whether a rank failed for a reason of its own."""
    return any(rank.failure.cause in OWN_CAUSES for rank in running if rank.failure)


def _listen(running: Sequence[Running], board: Board, on_message: Callable[[int, Any], None] | None) -> None:
    """Waits for one tick at most, and takes in what the ranks sent and how they ended."""
    by_handle: dict[Any, Running] = {rank.inbox: rank for rank in running if rank.inbox.open}
    by_handle |= {rank.process.sentinel: rank for rank in running if not rank.ended}
    ready = wait(list(by_handle), TICK_S)
    for rank in {id(by_handle[handle]): by_handle[handle] for handle in ready}.values():
        ended = rank.process.sentinel in ready
        if ended and not rank.ended:
            rank.process.join()
            rank.ended = True
        _receive(rank, on_message)
        if rank.ended:
            # What it has started may hold its pipe open.
            rank.inbox.open = False
            if rank.pid is not None:
                # Empty unless its keeper was killed.
                kill_group(rank.pid)
            if rank.value is None and rank.failure is None:
                rank.failure = from_exit(rank.number, rank.process.exitcode or 0, board.read(rank.number))


def _receive(rank: Running, on_message: Callable[[int, Any], None] | None) -> None:
    """Takes in what has come; of a rank that has ended, all that it sent."""
    for kind, content in rank.inbox.read():
        match kind:
            case "process":
                rank.pid = content
            case "value":
                rank.value = content
            case "failure":
                rank.failure = content
            case _ if on_message is not None:
                on_message(rank.number, content)


def _is_stopped(rank: Running) -> bool:
    """Whether it runs and /proc shows state T; False where there is no /proc."""
    if rank.ended:
        return False
    try:
        text = Path(f"/proc/{rank.pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] == "T"


def _note_stopped(running: Sequence[Running], board: Board) -> None:
    """A rank that a signal stopped has said nothing; its peers' timeouts are its doing."""
    for rank in running:
        if rank.failure is None and rank.value is None and _is_stopped(rank):
            rank.failure = Failure(rank.number, "stopped", "stopped by a signal", board.read(rank.number))


def _note_silent(running: Sequence[Running], board: Board, reason: str) -> None:
    for rank in running:
        if rank.value is None and rank.failure is None:
            rank.failure = Failure(rank.number, "silent", reason, board.read(rank.number))


def end(running: Sequence[Running]) -> None:
    """Has the keepers kill what is still alive, with everything it started, and waits until it is gone."""
    for rank in running:
        if not rank.ended and rank.process.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(rank.process.pid, signal.SIGTERM)
    for rank in running:
        rank.process.join(KEEPER_S)
        if rank.process.exitcode is None and rank.process.pid is not None:
            # Somebody has stopped the keeper.
            kill_all((*descendants([rank.process.pid]), rank.process.pid))
            rank.process.join()
        rank.inbox.close()
