"""Processes that end with the one that started them, however that ends; nothing of theirs is left.

A caller holds the other end of a process's stdin. When the caller is gone, killed or not, the kernel closes it, and
poll(2) tells so without reading what is there.

    end_with_caller()   in a worker: a thread that ends it then, whatever it is computing
    guard()             a process beside the caller, with a folder and a command of which nothing stays
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress

LEAVE_S = 10.0
"""For the command to end by itself, when it is asked to."""
LOOK_MS = 200
"""Between looks at whether the command still runs."""


def end_with_caller() -> None:
    """Ends this process, at once and from a thread of its own, when nobody has the other end of stdin any more."""
    threading.Thread(target=lambda: os._exit(0) if caller_left() else None, daemon=True).start()


def caller_left(wait_ms: int | None = None) -> bool:
    """Whether stdin was closed at its other end within the time, by default ever; False where nothing can tell."""
    if not hasattr(select, "poll"):
        return False
    end = select.poll()
    # Of a closed end poll(2) tells, whatever is asked for.
    end.register(sys.stdin.fileno(), 0)
    return bool(end.poll(wait_ms))


def guard() -> None:
    """Makes a folder, names it on stdout, and runs the command that comes as JSON on stdin.

    All of it goes when the command ends, the caller is gone or sends SIGTERM: then the command may leave by itself.
    """
    told: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: told.append(number))
    folder = tempfile.mkdtemp(prefix="lockstep-")
    try:
        print(folder, flush=True)
        if not (command := sys.stdin.readline()):
            return
        leader = subprocess.Popen(
            json.loads(command), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True
        )
        while leader.poll() is None and not told and not caller_left(LOOK_MS):
            pass
        end_session(leader, LEAVE_S if told else 0.0)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def end_session(leader: subprocess.Popen[bytes], leave_s: float) -> None:
    """Asks a process to leave, and ends whatever is left of its session after that time."""
    leader.terminate()
    with suppress(subprocess.TimeoutExpired):
        leader.wait(leave_s)
    with suppress(ProcessLookupError):
        os.killpg(leader.pid, signal.SIGKILL)
    leader.wait()


if __name__ == "__main__":
    guard()
