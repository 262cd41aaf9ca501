"""`Known`: an engine that answers nothing, for those who ask what a file has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from lockstep.base.engines.engine import Answered, Batch, Engine
from lockstep.base.records import dataclass


@dataclass(frozen=True, slots=True)
class Known(Engine):
    """Nothing is computed."""

    name: ClassVar[str] = "known"

    def run(self, function: Callable[[Any], Any], batches: Iterator[Batch]) -> Iterator[Answered]:
        """No batch."""
        yield from ()
