"""What an engine is: a `map` whose results come in the order of its tasks, wherever they were computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol, TypeVar

from lockstep.converge.experiment import Progress

Task = TypeVar("Task")
Result = TypeVar("Result")

MOST_DEATHS = 3
"""Processes that one task may take with it before it is given up."""


class Engine(Protocol):
    """A place where tasks run."""

    name: ClassVar[str]

    def map(self, function: Callable[[Task], Result], tasks: Sequence[Task], progress: Progress) -> list[Result]:
        """`function(task)` of every task, in order; both must be importable and picklable.

        Raises what the function raises, and `RunFailed` when a task has killed three processes.
        """
        ...


def given_up(task: Any) -> str:
    """What is said of a task that kills every process."""
    return f"{task} killed {MOST_DEATHS} processes in a row; run it alone with --engine serial to see why"
