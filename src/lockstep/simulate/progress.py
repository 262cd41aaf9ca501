"""What long computations tell whoever waits: (parts done, parts in all)."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[int, int], None]


def unseen(done: int, total: int) -> None:
    """Nobody watches."""
