"""`RunWriter`: one run being recorded. What `record` has returned from is kept, whatever happens to the process."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from lockstep.runs.files import canonical, cut_torn_tail, finite, flush, write_whole
from lockstep.runs.record import EVENTS, FAILED, FINISHED, RESULT


class RunWriter:
    """Appends events to a run and ends it. As a context: an exception inside ends the run as failed, with its words."""

    def __init__(self, path: Path) -> None:
        self.path = path
        events = path / EVENTS
        cut_torn_tail(events)
        self._file = os.open(events, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self._ended = False

    @property
    def id(self) -> str:
        """Name of the run."""
        return self.path.name

    def record(self, **values: Any) -> None:
        """Appends one event: plain JSON values, null for numbers that are not finite. Kept once this returns."""
        line = (canonical(finite(values)) + "\n").encode()
        written = os.write(self._file, line)
        if written != len(line):
            os.ftruncate(self._file, os.fstat(self._file).st_size - written)
            raise OSError(errno.ENOSPC, f"no room for an event in {self.path / EVENTS}")

    def finish(self, result: Mapping[str, Any]) -> None:
        """Ends the run with its answer."""
        self._end({"status": FINISHED, "reason": "", "result": finite(result)})

    def fail(self, reason: str) -> None:
        """Ends the run with the reason why it has no answer."""
        self._end({"status": FAILED, "reason": reason, "result": None})

    def _end(self, outcome: dict[str, Any]) -> None:
        if self._ended:
            raise ValueError(f"internal: run {self.id} has ended already")
        self._ended = True
        self.record(event="end", time_s=time.time())
        os.close(self._file)
        flush(self.path / EVENTS)
        write_whole(self.path / RESULT, outcome)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._ended:
            named = "stopped by Ctrl-C" if kind is KeyboardInterrupt else str(error) or getattr(kind, "__name__", "")
            self.fail(named if error is not None else "ended without an answer")
