"""`Forecast`: how long all questions will take, from the first ones that were answered.

    left = tasks left x mean seconds of a task / worker threads
The first batch of every worker is left out: it loads what later ones find loaded.
"""

from __future__ import annotations

from lockstep.base.engines.engine import Answered
from lockstep.base.errors import BadInput
from lockstep.base.units import format_time

MEASURED_TASKS, MEASURED_S = 3, 2.0
"""A forecast rests on that many tasks and seconds of work, whichever is later."""
SAID_S = 20.0
"""Forecasts of less are not worth a line."""
MANY = 16
"""Workers of the comparison."""


class Forecast:
    """Is told every batch, and says once how long all of it will take. Raises BadInput above `most_s`."""

    def __init__(self, total: int, most_s: float) -> None:
        self.total, self.most_s = total, most_s
        self._seen: set[object] = set()
        self._tasks, self._seconds, self._made = 0, 0.0, False

    def measured(self, answered: Answered, left: int) -> str | None:
        """What to say after this batch, with that many tasks left."""
        if self._made:
            return None
        if answered.worker not in self._seen:
            self._seen.add(answered.worker)
            return None
        self._tasks += len(answered.batch.places)
        self._seconds += answered.seconds
        if self._tasks < MEASURED_TASKS or self._seconds < MEASURED_S:
            return None
        self._made = True
        each_s, workers = self._seconds / self._tasks, answered.workers
        if each_s * left / workers > self.most_s:
            raise BadInput(
                f"{self.total:,} questions would take about {format_time(each_s * self.total / workers)} on "
                f"{_workers(workers)}, at {format_time(each_s)} each in the first {self._tasks:,}; the limit is "
                f"{format_time(self.most_s)}: use fewer values or seeds, more workers with --engine, or a longer limit",
                "--limit",
            )
        return self._said(each_s * left, workers)

    def _said(self, work_s: float, workers: int) -> str | None:
        if work_s / workers < SAID_S:
            return None
        here = f"{self.total:,} questions: about {format_time(work_s / workers)} on {_workers(workers)}"
        return here if workers >= MANY else f"{here}, {format_time(work_s / MANY)} on {MANY}"


def _workers(number: int) -> str:
    return "1 worker" if number == 1 else f"{number} workers"
