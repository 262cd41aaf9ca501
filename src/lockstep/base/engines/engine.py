"""What an engine is: it pulls batches of tasks when it has room for them, and gives each batch back with its answers.

The simplest is `Serial`: one task after another, in this process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any, ClassVar

from lockstep.base.engines.packing import packed
from lockstep.base.engines.threads import one_blas_thread
from lockstep.base.records import dataclass

MOST_DEATHS = 3
"""Processes that one batch may take with it before it is given up."""


def silent(done: int, total: int) -> None:
    """Progress that nobody watches."""


class EngineLost(Exception):
    """The engine is gone with all of its workers, such as a scheduler that was killed."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Tasks that travel together, and their places among all."""

    places: tuple[int, ...]
    tasks: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Answered:
    """A batch and its packed answers, in the order of its tasks; none where it has killed `MOST_DEATHS` processes."""

    batch: Batch
    answers: Sequence[bytes] | None
    seconds: float = 0.0
    """On the worker."""
    worker: object = None
    """Tells workers apart."""
    workers: int = 1
    """Worker threads that the engine has now."""


class Engine:
    """A place where tasks are answered."""

    __slots__ = ()
    name: ClassVar[str]
    together: ClassVar[bool] = True
    """Whether tasks are sent away, so that batches of them are worth their while."""

    def run(self, function: Callable[[Any], Any], batches: Iterator[Batch]) -> Iterator[Answered]:
        """Every batch with its answers as they come; function and tasks must be picklable.

        `batches` is asked for the next one when there is room: at most two are under way per worker thread. Closing the
        iterator ends what still runs. Raises what the function raises, and EngineLost.
        """
        raise NotImplementedError


def answer_batch(function: Callable[[Any], Any], tasks: Sequence[Any]) -> tuple[list[bytes], float]:
    """(packed `function(task)` of every task, seconds), in this process; an exception says which task raised it.

    A function that has `together(tasks)` is called in that context, in which answers share work.
    """
    began_s, answers = time.perf_counter(), []
    with one_blas_thread(), getattr(function, "together", nullcontext)(tasks):
        for task in tasks:
            try:
                answers.append(packed(function(task)))
            except Exception as error:
                error.add_note(f"in the question {task}")
                raise
    return answers, time.perf_counter() - began_s


@dataclass(frozen=True, slots=True)
class Serial(Engine):
    """No processes."""

    name: ClassVar[str] = "serial"
    together: ClassVar[bool] = False

    def run(self, function: Callable[[Any], Any], batches: Iterator[Batch]) -> Iterator[Answered]:
        """Every batch with its answers, in order."""
        for batch in batches:
            yield Answered(batch, *answer_batch(function, batch.tasks))
