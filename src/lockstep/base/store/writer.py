"""`RunWriter`: one run being recorded. What `record` has returned from is kept, whatever happens to the process."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from lockstep.base.documents.files import flush
from lockstep.base.store.files import NotRecorded, append, canonical, cut_torn_tail, finite, write_whole
from lockstep.base.store.record import EVENTS, FAILED, FINISHED, RESULT, STOPPED
from lockstep.base.types.plain import Json


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

    def record(self, **values: object) -> None:
        """Appends one event: plain JSON values, null for numbers that are not finite. Kept once this returns.

        Raises NotRecorded, without a part of the event in the file.
        """
        line = (canonical(finite(values)) + "\n").encode()
        with self._recording():
            append(self._file, line)

    def finish(self, result: Mapping[str, object]) -> None:
        """Ends the run with its answer. Raises NotRecorded."""
        self._end({"status": FINISHED, "reason": "", "result": finite(result)})

    def fail(self, reason: str) -> None:
        """Ends the run with the reason why it has no answer. Raises NotRecorded."""
        self._end({"status": FAILED, "reason": reason, "result": None})

    def stop(self) -> None:
        """Ends the run because somebody pressed Ctrl-C. Raises NotRecorded."""
        self._end({"status": STOPPED, "reason": "stopped by Ctrl-C", "result": None})

    def _end(self, outcome: Json) -> None:
        if self._ended:
            raise ValueError(f"internal: run {self.id} has ended already")
        self._ended = True
        with self._recording():
            try:
                self.record(event="end", time_s=time.time())
            finally:
                os.close(self._file)
            flush(self.path / EVENTS)
            write_whole(self.path / RESULT, outcome)

    @contextmanager
    def _recording(self) -> Iterator[None]:
        """Whatever the system says against writing, as NotRecorded."""
        try:
            yield
        except NotRecorded:
            raise
        except OSError as error:
            raise NotRecorded(f"run {self.id} cannot be recorded in {self.path.parent}: {error.strerror}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._ended:
            return
        if error is None:
            self.fail("ended without an answer")
            return
        # Why the run ended counts for more than that it cannot be written down.
        with suppress(NotRecorded):
            if isinstance(error, KeyboardInterrupt):
                self.stop()
            else:
                self.fail(str(error) or type(error).__name__)
