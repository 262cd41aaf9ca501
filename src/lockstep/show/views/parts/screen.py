"""`Screen`: an answer that is drawn again in its place on a terminal while it changes."""

from __future__ import annotations

import time
from io import StringIO
from typing import TYPE_CHECKING

from rich.text import Text

from lockstep.show.views.parts.terminal import FileConsole

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from rich.console import Console
    from rich.live import Live

EVERY_S = 0.5
"""Between two drawings."""


class Screen:
    """Draws in its place where `on`, which a terminal is, and takes it away at the end; elsewhere nothing."""

    def __init__(self, on: bool) -> None:
        self.on = on
        self._live: Live | None = None
        self._drawn_s = -EVERY_S

    def __enter__(self) -> Screen:
        if self.on:
            from rich.live import Live

            self._live = Live(console=FileConsole(), auto_refresh=False, transient=True)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def draw(self, render: Callable[[Console], None]) -> None:
        """Draws what `render` prints, unless something was drawn a moment ago."""
        if self._live is None or time.monotonic() - self._drawn_s < EVERY_S:
            return
        shown: Console = self._live.console
        out = FileConsole(file=StringIO(), width=shown.width, force_terminal=True, color_system=shown.color_system)
        render(out)
        text = out.file.getvalue() if isinstance(out.file, StringIO) else ""
        # What does not fit a terminal cannot be drawn over.
        lines = text.splitlines()[: max(1, shown.height - 1)]
        self._live.update(Text.from_ansi("\n".join(lines)), refresh=True)
        self._drawn_s = time.monotonic()
