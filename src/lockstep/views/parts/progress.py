"""A progress bar on stderr, for a person who has waited for half a second."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PATIENCE_S = 0.5


@contextmanager
def progress(title: str) -> Iterator[Callable[[int, int], None]]:
    """Gives a function to call with (done, total). Draws nothing without a terminal or when all is over soon."""
    started = time.monotonic()
    drawn: list[Any] = []

    def report(done: int, total: int) -> None:
        if not drawn and sys.stderr.isatty() and time.monotonic() - started > PATIENCE_S and done < total:
            drawn.extend(_bar(title))
        if drawn:
            drawn[0].update(drawn[1], completed=done, total=total)

    try:
        yield report
    finally:
        if drawn:
            drawn[0].stop()


def _bar(title: str) -> tuple[Any, Any]:
    """A started bar that vanishes when it is stopped, and its task."""
    from rich.console import Console
    from rich.progress import Progress

    shown = Progress(console=Console(stderr=True), transient=True)
    task = shown.add_task(title, total=None)
    shown.start()
    return shown, task
