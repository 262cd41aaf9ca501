"""`Runner`: one rank of a program at work, a thread per lane, point-to-point sends and receives for its messages.

A lane's thread takes its operations in order; each waits for the operations of other lanes that it depends on. Lanes
overlap as the program allows, because waiting for a message releases the interpreter. A computation with a duration
sleeps for it, as a processor waits for an accelerator, so ranks may outnumber cores. What a message brings is reduced
while the rest of it arrives, where a reduction follows. A message without data carries its own number, and the receiver
checks it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockstep.measure.execute.lanes import Lane, Task
from lockstep.measure.execute.transfer import Transfers
from lockstep.measure.launch import Rank, point
from lockstep.program import Kind

if TYPE_CHECKING:
    from torch import Tensor
    from torch.distributed import ProcessGroup

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


class Runner:
    """Lanes of one rank and the buffers they work on; `run` may be called again and again."""

    def __init__(
        self,
        rank: Rank,
        lanes: tuple[Lane, ...],
        buffers: Mapping[str, Tensor],
        title: str,
        groups: Mapping[int, ProcessGroup | None],
    ) -> None:
        self.rank = rank
        self.lanes = lanes
        self.buffers = buffers
        self.title = title
        self.payload = _payloads(lanes, rank.device)
        self.groups = groups
        self.transfers = Transfers(rank)
        self.watched = {waited for lane in lanes for task in lane for waited in task.waits}
        self.pool = ThreadPoolExecutor(max(1, len(lanes)))

    def run(self) -> Spans:
        """Runs every operation once. Raises what the first failing lane raised."""
        done = {number: threading.Event() for number in self.watched}
        spans: dict[int, tuple[int, int]] = {}
        sent = [self.pool.submit(self._lane, lane, done, spans) for lane in self.lanes]
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

    def _lane(
        self, lane: Lane, done: Mapping[int, threading.Event], spans: dict[int, tuple[int, int]]
    ) -> tuple[int, int]:
        """Bytes and messages that the lane sent."""
        sent_B = messages = 0
        reduced, now_ns = 0, self.rank.clock.now_ns
        for step, task in enumerate(lane):
            for other in task.waits:
                if not done[other].wait(self.rank.timeout_s):
                    raise TimeoutError(f"operation {task.id} timed out waiting for operation {other}")
            point(f"mid_{self.title}:{step}")
            start_ns = now_ns()
            if task.kind == Kind.SEND:
                sent_B += self.transfers.send(self._content(task), task.peer, task.tag)
                messages += 1
            elif task.kind == Kind.RECV:
                following = lane[step + 1] if step + 1 < len(lane) else None
                reduced = self._receive(task, following, done)
            else:
                self._do(task, reduced)
                reduced = 0
            spans[task.id] = start_ns, now_ns()
            if task.id in done:
                done[task.id].set()
        return sent_B, messages

    def _receive(self, task: Task, following: Task | None, done: Mapping[int, threading.Event]) -> int:
        """Receives; returns how many elements of the reduction that follows, if one does, were done on the way."""
        content = self._content(task)
        if following is None or not _reduces(following, task):
            self.transfers.recv(content, task.peer, task.tag)
            if not task.buffer and task.size_B >= NUMBER_B:
                _check_number(content, task)
            return 0
        total, reduced = self._target(following), 0

        def arrived(elements: int) -> None:
            nonlocal reduced
            if all(done[other].is_set() for other in following.waits):
                total[reduced:elements].add_(content[reduced:elements])
                reduced = elements

        self.transfers.recv(content, task.peer, task.tag, arrived)
        return reduced

    def _do(self, task: Task, reduced: int) -> None:
        """Does one operation that is no message to its end; the first `reduced` elements of a reduction are done."""
        match task.kind:
            case Kind.REDUCE:
                self._target(task)[reduced:].add_(self._source(task)[reduced:])
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


def _reduces(following: Task, received: Task) -> bool:
    """Whether the operation after a receive on its lane adds exactly what was received."""
    return (
        following.kind == Kind.REDUCE
        and following.source == received.buffer
        and following.source_start == received.start
        and following.stop - following.start == received.stop - received.start
    )


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
