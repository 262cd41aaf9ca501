"""Tasks on local processes. A process that dies is replaced and its task is done again.

Every process has a thread here that feeds it one task at a time, so it is always known which task a dead process had.
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
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, ClassVar

from lockstep.errors import RunFailed
from lockstep.lab.sweep.engines.engine import MOST_DEATHS, Engine, Result, Task, given_up

ANSWERING = "lockstep.lab.sweep.engines.answering"
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

    def ask(self, task: object) -> tuple[Any, BaseException | None]:
        """(result, None) or (None, what the function raised); `Died` when the process did."""
        pipes = self._process
        if pipes.stdin is None or pipes.stdout is None:
            raise Died
        messages = b"".join(pickle.dumps(one) for one in [*self._first, task])
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

    def stream(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[tuple[int, Result]]:
        """(place, `function(task)`) of every task as it is done."""
        work = _Work(function, deque(enumerate(tasks)))
        threads = [threading.Thread(target=work.feed) for _ in range(min(self.workers, len(tasks)))]
        for thread in threads:
            thread.start()
        try:
            for _ in tasks:
                place, result, error = work.done.get()
                if error is not None:
                    raise error
                yield place, result
        except BaseException:
            work.abandon()
            raise
        finally:
            for thread in threads:
                thread.join()


@dataclass(slots=True)
class _Work:
    """Tasks that wait, results that came, processes that live."""

    function: Callable[[Any], Any]
    waiting: deque[tuple[int, Any]]
    done: SimpleQueue[tuple[int, Any, BaseException | None]] = field(default_factory=SimpleQueue)
    children: list[Child] = field(default_factory=list)
    abandoned: bool = False

    def feed(self) -> None:
        """One thread: asks one process after another until no task waits."""
        child: Child | None = None
        try:
            while not self.abandoned and self.waiting:
                place, task = self.waiting.popleft()
                for _ in range(MOST_DEATHS):
                    child = child or self._start()
                    try:
                        self.done.put((place, *child.ask(task)))
                        break
                    except Died:
                        child = None
                        if self.abandoned:
                            return
                else:
                    raise RunFailed(given_up(task))
        except IndexError:
            return
        except BaseException as error:
            self.done.put((-1, None, error))
        finally:
            if child is not None:
                child.leave()

    def abandon(self) -> None:
        """Nothing more is wanted: no new task, and running ones end with their processes."""
        self.abandoned = True
        for child in list(self.children):
            child.kill()

    def _start(self) -> Child:
        child = Child(self.function)
        self.children.append(child)
        if self.abandoned:
            child.kill()
        return child
