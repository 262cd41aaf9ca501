"""What a rank sends its launcher: pickled messages in a pipe, each after its length, read as far as they have come.

A rank that is stopped in the middle of a large message must not stop its launcher with it: `Inbox.read` never waits.
"""

from __future__ import annotations

import os
import pickle
import struct
from multiprocessing.connection import Connection
from typing import Any

LENGTH = struct.Struct("!Q")
READ_B = 1 << 20
MOST_B = 1 << 26
"""Bytes taken in by one call, so that a rank that never stops sending leaves time for the others."""


def post(pipe: Connection, message: object) -> None:
    """Sends a message; waits until the launcher has taken in all but what a pipe holds. Raises OSError."""
    content = pickle.dumps(message)
    for part in (LENGTH.pack(len(content)), content):
        left = memoryview(part)
        while left:
            left = left[os.write(pipe.fileno(), left) :]


class Inbox:
    """The launcher's end of a rank's pipe. `open` until the other end is closed."""

    def __init__(self, pipe: Connection) -> None:
        self.pipe = pipe
        self.open = True
        self._held = bytearray()
        os.set_blocking(pipe.fileno(), False)

    def fileno(self) -> int:
        """To wait for."""
        return self.pipe.fileno()

    def close(self) -> None:
        """Closes this end."""
        self.pipe.close()

    def read(self) -> list[Any]:
        """The messages that are complete by now; what there is of the next one is kept for the next call."""
        taken_B = 0
        while self.open and taken_B < MOST_B:
            try:
                part = os.read(self.pipe.fileno(), READ_B)
            except BlockingIOError:
                break
            self.open = bool(part)
            self._held += part
            taken_B += len(part)
        return list(self._complete())

    def _complete(self) -> list[Any]:
        """Takes the complete messages off what is held."""
        found, start = [], 0
        while len(self._held) - start >= LENGTH.size:
            (length,) = LENGTH.unpack_from(self._held, start)
            stop = start + LENGTH.size + length
            if len(self._held) < stop:
                break
            found.append(pickle.loads(self._held[start + LENGTH.size : stop]))
            start = stop
        del self._held[:start]
        return found
