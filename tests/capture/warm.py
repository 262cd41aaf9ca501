"""Captures in copies of one process that has imported PyTorch, which takes twice as long as a capture in the tests."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any, Self

from lockstep.run.capture.start import LAUNCHER

# Run from a string, so that no line of it is taken for one of a program that is captured.
SERVER = """
import gc, json, os, socket, sys
import torch._dynamo, torch.distributed.fsdp  # As every capture does, after a second.
from lockstep.run.capture import child

gc.collect()
gc.freeze()  # Copies do not walk what is imported, which would write to all of its pages.
asked, copies = socket.socket(fileno=int(sys.argv[1])), []
while True:
    told, passed, *_ = socket.recv_fds(asked, 1 << 20, 2)
    if not told:
        break
    copy = os.fork()
    if copy == 0:
        asked.close()
        arguments, environment, folder = json.loads(told)
        printed, heard = passed
        os.dup2(printed, 1)
        os.dup2(printed, 2)
        os.close(printed)
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(folder)
        sys.argv[:], sys.path[0] = [*arguments, str(heard)], folder
        child.main()
        sys.exit()
    copies.append(copy)
    asked.send(str(copy).encode())
    for one in passed:
        os.close(one)
for copy in copies:
    os.waitpid(copy, 0)  # Not before: a number that is not used again can be killed. Its time is that of the tests.
"""


class Copy:
    """As much of `subprocess.Popen` as a capture uses."""

    def __init__(self, process: int, printed: int) -> None:
        self._process, self._printed, self._said = process, printed, bytearray()

    def communicate(self, timeout: float) -> tuple[str, None]:
        """What the copy and those that it started printed until all of them ended. Raises TimeoutExpired."""
        until_s = time.monotonic() + timeout
        while select.select([self._printed], [], [], max(0.0, until_s - time.monotonic()))[0]:
            part = os.read(self._printed, 1 << 16)
            if not part:
                return self._said.decode(), None
            self._said += part
        raise subprocess.TimeoutExpired("copy", timeout)

    def kill(self) -> None:
        """Ends it at once."""
        os.kill(self._process, signal.SIGKILL)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._printed)


class Warm:
    """Stands for the module `subprocess` where a capture starts its process."""

    DEVNULL, PIPE, STDOUT = subprocess.DEVNULL, subprocess.PIPE, subprocess.STDOUT
    TimeoutExpired = subprocess.TimeoutExpired

    def __init__(self) -> None:
        self._server: subprocess.Popen[bytes] | None = None
        self._lock = Lock()

    def Popen(self, command: Sequence[str], env: Mapping[str, str], pass_fds: tuple[int], **_: Any) -> Copy:
        """A copy that does what `python -m lockstep.run.capture.child question.json` does."""
        _, module, name, question, heard = command
        assert (module, name, int(heard)) == ("-m", "lockstep.run.capture.child", *pass_fds)
        printed, end = os.pipe()
        with self._lock:
            self._start(env)
            told = json.dumps((["child", question], dict(env), os.getcwd())).encode()
            socket.send_fds(self._asked, [told], [end, *pass_fds])
            process = int(self._asked.recv(100))
        os.close(end)
        return Copy(process, printed)

    def _start(self, environment: Mapping[str, str]) -> None:
        if self._server is None:
            self._asked, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            own = {name: value for name, value in environment.items() if name not in LAUNCHER}
            command = [sys.executable, "-c", SERVER, str(theirs.fileno())]
            fds = (theirs.fileno(),)
            self._server = subprocess.Popen(command, stdin=subprocess.DEVNULL, env=own, pass_fds=fds)
            theirs.close()

    def close(self) -> None:
        """Ends the server."""
        if self._server is not None:
            self._asked.close()
            self._server.wait()
