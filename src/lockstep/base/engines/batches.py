"""`Batches`: the tasks that are left, cut into batches that each take a fifth of a second or more.

    size = TARGET_S / seconds of one task, by the batches measured last       1 until one was measured
Tasks that share work (`Questions.alike`) stay in one batch. Sizes change nothing but the time: an answer depends on its
own task alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import groupby
from threading import Lock

from lockstep.base.engines.engine import Answered, Batch
from lockstep.base.engines.questions import Questions

TARGET_S = 0.3
"""Above 200 ms, below which sending a batch away costs more than a few per cent of it."""
MOST_GROWTH = 8
"""From one batch to the next: the first tasks may be the cheap ones."""
MOST_TASKS = 20_000
RECENT = 0.5
"""Weight of the batch measured last."""


class Batches:
    """An iterator over batches for several threads; with `alone` every task has a batch of its own."""

    def __init__(
        self, questions: Questions, places: Iterator[int], *, together: bool = True, alone: bool = False
    ) -> None:
        self._tasks, self._lock = questions.tasks, Lock()
        alike = None if alone else questions.alike
        self._groups = (tuple(some) for _, some in groupby(places, alike))
        self._most = MOST_TASKS if together and not alone else 1
        self._size, self._task_s = 1, math.nan

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        places: list[int] = []
        with self._lock:
            for some in self._groups:
                places += some
                if len(places) >= self._size:
                    break
        if not places:
            raise StopIteration
        return Batch(tuple(places), tuple(self._tasks[place] for place in places))

    def measured(self, answered: Answered) -> None:
        """Learns how long a batch took."""
        number = len(answered.batch.places)
        task_s = max(answered.seconds / number, 1e-9)
        known = math.isfinite(self._task_s)
        self._task_s = RECENT * task_s + (1 - RECENT) * self._task_s if known else task_s
        wanted = math.ceil(TARGET_S / self._task_s)
        self._size = min(max(1, wanted), MOST_GROWTH * number, self._most)
