"""One task after another, in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from lockstep.lab.sweep.engines.engine import Engine, Result, Task


@dataclass(frozen=True, slots=True)
class Serial(Engine):
    """No processes."""

    name: ClassVar[str] = "serial"

    def stream(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[tuple[int, Result]]:
        """(place, `function(task)`) of every task, in order."""
        for place, task in enumerate(tasks):
            yield place, function(task)
