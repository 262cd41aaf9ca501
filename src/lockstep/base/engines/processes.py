"""Batches on local processes. A process that dies is replaced and its batch is asked again.

Every process has a thread here that feeds it one batch at a time, so it is always known what a dead process had.
A process answers over its pipes; `answering.py` is what it runs. It is a plain `python -m` child, so the caller's
script is not imported again as `multiprocessing` would, and needs no `if __name__ == "__main__"`. The two ends speak in
pickles, one per message.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import islice
from queue import SimpleQueue
from typing import Any, ClassVar

from lockstep.base.engines.engine import MOST_DEATHS, Answered, Batch, Engine
from lockstep.base.records import dataclass, field

ANSWERING = "lockstep.base.engines.answering"
PATIENCE_S = 10.0
"""For a process to leave when nothing is left to do."""


class Died(Exception):
    """The process ended before it answered."""


class Child:
    """The caller's end."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", ANSWERING], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._first: list[Any] = [sys.path, function]

    def ask(self, tasks: object) -> tuple[Any, BaseException | None]:
        """(answers and their seconds, None) or (None, what the function raised); `Died` when the process did."""
        pipes = self._process
        if pipes.stdin is None or pipes.stdout is None:
            raise Died
        messages = b"".join(pickle.dumps(one) for one in [*self._first, tasks])
        self._first = []
        try:
            pipes.stdin.write(messages)
            pipes.stdin.flush()
            answer: tuple[Any, BaseException | None] = pickle.load(pipes.stdout)
        except (EOFError, OSError, pickle.UnpicklingError):
            self.leave()
            raise Died from None
        return answer

    def leave(self) -> None:
        """Closes the pipes, which ends the process, and waits for it."""
        for pipe in (self._process.stdin, self._process.stdout):
            try:
                if pipe is not None:
                    pipe.close()
            except BrokenPipeError:
                continue
        try:
            self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def kill(self) -> None:
        """Ends the process at once; who waits for its answer gets `Died`."""
        self._process.kill()


@dataclass(frozen=True, slots=True)
class Processes(Engine):
    """As many processes as this machine may use, or `workers`."""

    name: ClassVar[str] = "processes"
    workers: int = field(default_factory=lambda: len(os.sched_getaffinity(0)))

    def run(self, function: Callable[[Any], Any], batches: Iterator[Batch]) -> Iterator[Answered]:
        """Every batch with its answers as they come."""
        work = _Work(function, batches, self.workers)
        first = list(islice(batches, self.workers))
        threads = [threading.Thread(target=work.feed, args=(batch,)) for batch in first]
        for thread in threads:
            thread.start()
        try:
            left = len(threads)
            while left:
                found = work.done.get()
                if found is None:
                    left -= 1
                elif isinstance(found, BaseException):
                    raise found
                else:
                    yield found
        except BaseException:
            work.abandon()
            raise
        finally:
            for thread in threads:
                thread.join()


@dataclass(slots=True)
class _Work:
    """Batches that wait, answers that came, processes that live."""

    function: Callable[[Any], Any]
    batches: Iterator[Batch]
    workers: int
    done: SimpleQueue[Answered | BaseException | None] = field(default_factory=SimpleQueue)
    children: list[Child] = field(default_factory=list)
    abandoned: bool = False

    def feed(self, batch: Batch | None) -> None:
        """One thread: asks one process after another until no batch is left; None says that it is over."""
        child: Child | None = None
        try:
            while batch is not None and not self.abandoned:
                for _ in range(MOST_DEATHS):
                    child = child or self._start()
                    try:
                        found, error = child.ask(batch.tasks)
                    except Died:
                        child = None
                        continue
                    if error is not None:
                        raise error
                    answers, seconds = found
                    self.done.put(Answered(batch, answers, seconds, id(child), self.workers))
                    break
                else:
                    self.done.put(Answered(batch, None, workers=self.workers))
                batch = next(self.batches, None)
        except BaseException as error:
            self.done.put(error)
        finally:
            if child is not None:
                child.leave()
            self.done.put(None)

    def abandon(self) -> None:
        """Nothing more is wanted: no new batch, and running ones end with their processes."""
        self.abandoned = True
        for child in list(self.children):
            child.kill()

    def _start(self) -> Child:
        child = Child(self.function)
        self.children.append(child)
        if self.abandoned:
            child.kill()
        return child
