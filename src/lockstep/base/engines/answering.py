"""What a child process runs: the import path and the function come first, then batches until the pipe closes.

What a task prints goes to stderr, as stdout carries the answers. The process ends with its caller, in the middle of a
task too.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any

from lockstep.base.engines.engine import answer_batch
from lockstep.base.engines.guard import end_with_caller


def answer_tasks() -> None:
    """Reads from stdin, answers to stdout."""
    # The caller decides when to end; a Ctrl-C reaches it too.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_caller()
    asked, answers = sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    sys.path[:] = pickle.load(asked)
    function = pickle.load(asked)
    while True:
        try:
            tasks = pickle.load(asked)
        except EOFError:
            return
        try:
            answers.write(_answer(function, tasks))
            answers.flush()
        except BrokenPipeError:
            # Nobody reads the answers any more; what is buffered would be written again at a normal exit.
            os._exit(0)


def _answer(function: Callable[[Any], Any], tasks: Sequence[Any]) -> bytes:
    """Pickled (answers, None) or (None, error); an error that does not survive pickling comes as its text."""
    try:
        return pickle.dumps((answer_batch(function, tasks), None))
    except Exception as error:
        try:
            packed = pickle.dumps((None, error))
            pickle.loads(packed)
        except Exception:
            packed = pickle.dumps((None, RuntimeError(f"{type(error).__name__}: {error}")))
        return packed


if __name__ == "__main__":
    answer_tasks()
