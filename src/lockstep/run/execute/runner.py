"""`Runner`: one rank of a program at work, a thread per lane, point-to-point sends and receives for its messages.

A lane's thread takes its operations in order; each waits for the operations of other lanes that it depends on. Lanes
overlap as the program allows, because waiting for a message releases the interpreter; sends that need no thread of
their own join another lane's (`joined`). A computation with a duration sleeps for it, as a processor waits for an
accelerator, so ranks may outnumber cores. What a message brings is reduced while the rest of it arrives, where nothing
else waits for it (`summands`). A message without data carries its own number, and the receiver checks it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import TYPE_CHECKING

from lockstep.base.records import dataclass
from lockstep.run.execute.lanes import Lane, Task, joined, summands
from lockstep.run.execute.transfer import Transfers
from lockstep.run.launch import Rank, point
from lockstep.simulate.program import Kind

if TYPE_CHECKING:
    from torch import Tensor
    from torch.distributed import ProcessGroup, Work

NUMBER_B = 8
"""Bytes of a message's number in a message without data."""


@dataclass(frozen=True, slots=True)
class Spans:
    """When one rank's operations ran, by its own clock, and what it gave to the network."""

    ids: tuple[int, ...]
    start_ns: tuple[int, ...]
    end_ns: tuple[int, ...]
    sent_B: int
    messages: int


@dataclass(frozen=True, slots=True)
class Leaving:
    """A send on its way."""

    id: int
    start_ns: int
    works: Sequence[Work]
    named: ExitStack


Named = Callable[[Task], AbstractContextManager[object]]
"""What is around an operation while it runs."""
UNNAMED = nullcontext()


class Runner:
    """Lanes of one rank and the buffers they work on; `run` may be called again and again.

    `named`, which may be changed between runs, is entered around each operation: its name in a profile.
    """

    def __init__(
        self,
        rank: Rank,
        lanes: tuple[Lane, ...],
        buffers: Mapping[str, Tensor],
        title: str,
        groups: Mapping[int, ProcessGroup | None],
    ) -> None:
        self.rank = rank
        self.transfers = Transfers(rank)
        # With a core of its own for each of them, two threads send and receive at the same time.
        self.threads, self.joined = joined(lanes) if self.transfers.cut.crowded else (lanes, frozenset())
        self.buffers = buffers
        self.title = title
        self.payload = _payloads(lanes, rank.device)
        self.groups = groups
        self.named: Named = lambda task: UNNAMED
        self.summands = summands(lanes)
        self.added = {reduce.id for reduce in self.summands.values()}
        self.watched = {wait for thread in self.threads for wait in _waits_for_others(thread)}
        self.pool = ThreadPoolExecutor(max(1, len(self.threads)))

    def run(self) -> Spans:
        """Runs every operation once. Raises what the first failing lane raised."""
        done = {number: threading.Event() for number in self.watched}
        spans: dict[int, tuple[int, int]] = {}
        if len(self.threads) == 1:
            counts = [self._thread(self.threads[0], done, spans)]
        else:
            sent = [self.pool.submit(self._thread, thread, done, spans) for thread in self.threads]
            for finished in wait(sent, return_when=FIRST_EXCEPTION).done:
                finished.result()
            counts = [future.result() for future in sent]
        ids = tuple(sorted(spans))
        return Spans(
            ids,
            tuple(spans[i][0] for i in ids),
            tuple(spans[i][1] for i in ids),
            sent_B=sum(size_B for size_B, _ in counts),
            messages=sum(messages for _, messages in counts),
        )

    def close(self) -> None:
        """Ends the threads."""
        self.pool.shutdown()

    def _thread(
        self, tasks: Lane, done: Mapping[int, threading.Event], spans: dict[int, tuple[int, int]]
    ) -> tuple[int, int]:
        """Bytes and messages that the thread sent."""
        sent_B = messages = 0
        now_ns = self.rank.clock.now_ns
        leaving: Leaving | None = None
        for step, task in enumerate(tasks):
            if leaving is not None and (task.kind == Kind.SEND or leaving.id in task.waits):
                self._leave(leaving, spans)
                leaving = None
            self._wait(task, done)
            point(f"mid_{self.title}:{step}")
            if task.kind == Kind.SEND:
                content, named = self._content(task), ExitStack()
                named.enter_context(self.named(task))
                leaving = Leaving(task.id, now_ns(), self.transfers.post(content, task.peer, task.tag), named)
                sent_B += content.numel() * content.element_size()
                messages += 1
                if task.id not in self.joined:
                    self._leave(leaving, spans)
                    leaving = None
            else:
                with self.named(task):
                    start_ns = now_ns()
                    self._do(task)
                    spans[task.id] = start_ns, now_ns()
            if task.id in done:
                done[task.id].set()
        if leaving is not None:
            self._leave(leaving, spans)
        return sent_B, messages

    def _wait(self, task: Task, done: Mapping[int, threading.Event]) -> None:
        """Until the operations of other threads that the task depends on have ended."""
        for other in task.waits:
            if other in done and not done[other].wait(self.rank.timeout_s):
                raise TimeoutError(f"operation {task.id} timed out waiting for operation {other}")

    def _leave(self, leaving: Leaving, spans: dict[int, tuple[int, int]]) -> None:
        """Until a posted send has left."""
        self.transfers.wait(leaving.works)
        spans[leaving.id] = leaving.start_ns, self.rank.clock.now_ns()
        leaving.named.close()

    def _do(self, task: Task) -> None:
        """Does one operation that is no send to its end."""
        match task.kind:
            case Kind.RECV if task.id in self.summands:
                self.transfers.recv_added(self._target(self.summands[task.id]), task.peer, task.tag)
            case Kind.RECV:
                content = self._content(task)
                self.transfers.recv(content, task.peer, task.tag)
                if not task.buffer and task.size_B >= NUMBER_B:
                    _check_number(content, task)
            case Kind.REDUCE:
                if task.id not in self.added:
                    self._target(task).add_(self._source(task))
            case Kind.COPY:
                self._target(task).copy_(self._source(task))
            case Kind.BARRIER:
                import torch.distributed as dist

                dist.barrier(self.groups[task.group])
            case _ if task.duration_s:
                time.sleep(task.duration_s)

    def _content(self, task: Task) -> Tensor:
        """What a message moves."""
        return self._target(task) if task.buffer else self.payload[task.id]

    def _target(self, task: Task) -> Tensor:
        return self.buffers[task.buffer][task.start : task.stop]

    def _source(self, task: Task) -> Tensor:
        return self.buffers[task.source][task.source_start : task.source_start + task.stop - task.start]


def _waits_for_others(thread: Lane) -> set[int]:
    """Operations of other threads that this one waits for."""
    return {wait for task in thread for wait in task.waits} - {task.id for task in thread}


def _payloads(lanes: tuple[Lane, ...], device: str) -> dict[int, Tensor]:
    """Contents of the messages that have no data: the number of the message, then zeros."""
    import torch

    contents = {}
    for task in (task for lane in lanes for task in lane):
        if task.kind in (Kind.SEND, Kind.RECV) and not task.buffer:
            content = torch.zeros(task.size_B, dtype=torch.uint8)
            if task.kind == Kind.SEND and task.size_B >= NUMBER_B:
                content[:NUMBER_B] = _number(task.tag)
            contents[task.id] = content.to(device)
    return contents


def _number(tag: int) -> Tensor:
    import torch

    return torch.tensor(list(tag.to_bytes(NUMBER_B, "little")), dtype=torch.uint8)


def _check_number(tensor: Tensor, task: Task) -> None:
    got = int.from_bytes(bytes(tensor[:NUMBER_B].tolist()), "little")
    if got != task.tag:
        raise RuntimeError(f"operation {task.id} received message {got} instead of {task.tag}")
