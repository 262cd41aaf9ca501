"""`Runner`: one rank of a program at work, a thread per lane, point-to-point sends and receives for its messages.

A lane's thread takes its operations in order; each waits for the operations of other lanes that it depends on. Lanes
overlap as the program allows, because waiting for a message releases the interpreter. A computation with a duration
sleeps for it, as a processor waits for an accelerator, so ranks may outnumber cores. A message without data carries
its own number, and the receiver checks it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockstep.measure.execute.lanes import Lane, Task
from lockstep.measure.launch import Rank, point
from lockstep.program import Kind

if TYPE_CHECKING:
    from torch import Tensor
    from torch.distributed import ProcessGroup

NUMBER_B = 8
"""Bytes of a message's number in a message without data."""


@dataclass(frozen=True, slots=True)
class Spans:
    """When one rank's operations ran, by the monotonic clock of its machine, and what it gave to the network."""

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
        for step, task in enumerate(lane):
            for other in task.waits:
                if not done[other].wait(self.rank.timeout_s):
                    raise TimeoutError(f"operation {task.id} timed out waiting for operation {other}")
            point(f"mid_{self.title}:{step}")
            start_ns = time.monotonic_ns()
            size_B = self._do(task)
            spans[task.id] = start_ns, time.monotonic_ns()
            if task.kind == Kind.SEND:
                sent_B, messages = sent_B + size_B, messages + 1
            if task.id in done:
                done[task.id].set()
        return sent_B, messages

    def _do(self, task: Task) -> int:
        """Does one operation to its end; returns the bytes that it put into or took from a message."""
        match task.kind:
            case Kind.SEND | Kind.RECV:
                return self._transfer(task)
            case Kind.REDUCE:
                self._target(task).add_(self._source(task))
            case Kind.COPY:
                self._target(task).copy_(self._source(task))
            case Kind.BARRIER:
                import torch.distributed as dist

                dist.barrier(self.groups[task.group])
            case _ if task.duration_s:
                time.sleep(task.duration_s)
        return 0

    def _transfer(self, task: Task) -> int:
        import torch.distributed as dist

        tensor = self._target(task) if task.buffer else self.payload[task.id]
        move = dist.isend if task.kind == Kind.SEND else dist.irecv
        # Waited for exactly once: a second wait on a finished gloo send hangs until the group's timeout.
        work = move(tensor, task.peer, tag=task.tag)
        if work is not None:
            work.wait()
        if self.rank.backend == "nccl":
            import torch

            torch.cuda.synchronize()
        if task.kind == Kind.RECV and not task.buffer and task.size_B >= NUMBER_B:
            _check_number(tensor, task)
        return tensor.numel() * tensor.element_size()

    def _target(self, task: Task) -> Tensor:
        return self.buffers[task.buffer][task.start : task.stop]

    def _source(self, task: Task) -> Tensor:
        return self.buffers[task.source][task.source_start : task.source_start + task.stop - task.start]


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
