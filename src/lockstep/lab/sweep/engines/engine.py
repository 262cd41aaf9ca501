"""What an engine is: it runs tasks somewhere, and gives each result with the place of its task once it is there.

The simplest is `Serial`: one task after another, in this process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from lockstep.lab.experiment import Progress

Task = TypeVar("Task")
Result = TypeVar("Result")

MOST_DEATHS = 3
"""Processes that one task may take with it before it is given up."""


class Engine:
    """A place where tasks run."""

    __slots__ = ()
    name: ClassVar[str]

    def stream(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[tuple[int, Result]]:
        """(place, `function(task)`) of every task as it is done; both must be importable and picklable.

        Closing the iterator ends what still runs. Raises what the function raises, and `RunFailed` when a task has
        killed three processes.
        """
        raise NotImplementedError


def gather(stream: Iterator[tuple[int, Result]], results: dict[int, Result], total: int, progress: Progress) -> None:
    """Puts all of a stream into `results`, and closes it, whatever ends it."""
    with closing(stream):  # type: ignore[type-var]
        for place, result in stream:
            results[place] = result
            progress(len(results), total)


def given_up(task: object) -> str:
    """What is said of a task that kills every process."""
    return f"{task} killed {MOST_DEATHS} processes in a row; run it alone with --engine serial to see why"


@dataclass(frozen=True, slots=True)
class Serial(Engine):
    """No processes."""

    name: ClassVar[str] = "serial"

    def stream(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[tuple[int, Result]]:
        """(place, `function(task)`) of every task, in order."""
        for place, task in enumerate(tasks):
            yield place, function(task)
