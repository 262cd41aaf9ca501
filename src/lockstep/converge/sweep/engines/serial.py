"""One task after another, in this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from lockstep.converge.experiment import Progress
from lockstep.converge.sweep.engines.engine import Result, Task


@dataclass(frozen=True, slots=True)
class Serial:
    """No processes."""

    name: ClassVar[str] = "serial"

    def map(self, function: Callable[[Task], Result], tasks: Sequence[Task], progress: Progress) -> list[Result]:
        """`function(task)` of every task, in order."""
        results = []
        for place, task in enumerate(tasks):
            results.append(function(task))
            progress(place + 1, len(tasks))
        return results
