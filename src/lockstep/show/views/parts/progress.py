"""A progress bar on stderr, for a person who has waited for half a second."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE_S = 0.5


class Bar:
    """What is called with (done, total). Draws nothing without a terminal or when all is over soon."""

    def __init__(self, title: str) -> None:
        self._title, self._started_s = title, time.monotonic()
        self._drawn: tuple[Any, Any] | None = None

    def __call__(self, done: int, total: int) -> None:
        waited = time.monotonic() - self._started_s > PATIENCE_S
        if self._drawn is None and waited and done < total and sys.stderr.isatty():
            self._drawn = _bar(self._title)
        if self._drawn is not None:
            self._drawn[0].update(self._drawn[1], completed=done, total=total)

    def say(self, text: str) -> None:
        """A line that stays, for a person who waits."""
        if self._drawn is not None:
            self._drawn[0].console.print(text)

    def stop(self) -> None:
        """Takes the bar away."""
        if self._drawn is not None:
            self._drawn[0].stop()


@contextmanager
def progress(title: str) -> Iterator[Bar]:
    """A bar while the context lasts."""
    bar = Bar(title)
    try:
        yield bar
    finally:
        bar.stop()


def _bar(title: str) -> tuple[Any, Any]:
    """A started bar that vanishes when it is stopped, and its task."""
    from rich.progress import Progress

    from lockstep.show.views.parts.terminal import FileConsole

    shown = Progress(console=FileConsole(stderr=True), transient=True)
    task = shown.add_task(title, total=None)
    shown.start()
    return shown, task
