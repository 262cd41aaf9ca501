"""A process that answers tasks over its pipes, seen from here; `answering.py` is what it runs.

It is a plain `python -m` child, so the caller's script is not imported again as `multiprocessing` would, and needs no
`if __name__ == "__main__"`. The two ends speak in pickles, one per message.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

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

    def ask(self, task: Any) -> tuple[Any, BaseException | None]:
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
