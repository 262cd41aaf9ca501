"""Standard output and error of a command, whatever stands at their other end.

A reader that goes away (head, less) has seen enough: the rest goes nowhere, and the verb still ends with its own exit
code. A disk that is full, or an output that is closed, loses the answer: that is said, with exit code 2, since 1 would
mean an answer.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from lockstep.base.errors import BadInput


class _Raw(io.FileIO):
    """A descriptor that takes in everything; `failure` is why some of it went nowhere."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self.failure: OSError | None = None

    def write(self, data: object) -> int:
        """Writes, or remembers why it could not."""
        if self.failure is None:
            try:
                return super().write(data)  # type: ignore[arg-type]
            except OSError as error:
                self.failure = error
        return memoryview(data).nbytes  # type: ignore[arg-type]


class Output:
    """What became of standard output."""

    def __init__(self, raw: _Raw | None, closed: bool) -> None:
        self._raw = raw
        self._closed = closed

    def check(self) -> None:
        """Raises BadInput when an answer was lost that somebody may still be waiting for."""
        sys.stdout.flush()
        failure = OSError(errno.EBADF, os.strerror(errno.EBADF)) if self._closed else self._raw and self._raw.failure
        if failure and not isinstance(failure, BrokenPipeError):
            raise BadInput(f"the answer cannot be written: {failure.strerror}", "stdout")


@contextmanager
def standard_streams() -> Iterator[Output]:
    """Replaces both streams of a process by ones that no write fails on, until the context ends."""
    before = sys.stdout, sys.stderr
    raw_out, raw_err = _raw_of(sys.stdout, sys.__stdout__), _raw_of(sys.stderr, sys.__stderr__)
    try:
        closed = sys.stdout is None
        sys.stdout = _text(raw_out, sys.stdout)
        sys.stderr = _text(raw_err, sys.stderr)
        yield Output(raw_out, closed)
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        sys.stdout, sys.stderr = before


def _raw_of(stream: TextIO | None, own: TextIO | None) -> _Raw | None:
    """The descriptor below a stream of the process; None for one that a caller put in its place, such as a test."""
    return _Raw(stream.fileno()) if stream is not None and stream is own else None


def _text(raw: _Raw | None, stream: TextIO | None) -> TextIO:
    """The stream, over `raw` if there is one. A letter that the terminal cannot show is replaced, not an exception."""
    if stream is None:
        # A closed descriptor would be given to the next file that is opened.
        return open(os.devnull, "w", encoding="utf-8")
    if raw is None:
        getattr(stream, "reconfigure", lambda **_: None)(errors="replace")
        return stream
    stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(raw), stream.encoding, "replace", line_buffering=getattr(stream, "line_buffering", False)
    )
