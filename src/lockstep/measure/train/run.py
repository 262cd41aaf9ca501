"""Runs a method on real ranks: `train` starts them, `work` is what each of them does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any

from lockstep.converge.settings import read_settings
from lockstep.measure.launch import launch
from lockstep.measure.train.method import Losses, find_method
from lockstep.measure.train.models import get_model
from lockstep.measure.train.result import Outcome, Step, TrainRun
from lockstep.measure.train.task import Task, batch_indices
from lockstep.measure.train.worker import Worker

if TYPE_CHECKING:
    from lockstep.measure.launch import Rank

REPORTS = 200
"""How often a run tells the launcher how far it is."""


def train(
    method: str,
    task: Task,
    ranks: int,
    settings: Mapping[str, object] | None = None,
    *,
    timeout_s: float = 60.0,
    on_step: Callable[[int, int], None] | None = None,
) -> TrainRun:
    """One run of a method on `ranks` processes of this machine (or as one rank of torchrun's).

    Args: `settings` of the method, as values or text; `timeout_s`, the longest wait of one rank for another;
    `on_step(done, total)`.
    Raises: BadInput, UnknownName, RunFailed.
    """
    given = dict(settings or {})
    chosen = read(method, task, ranks, given)

    def hear(rank: int, steps: Any) -> None:
        if on_step is not None:
            on_step(steps, task.steps)

    outcomes = launch(work, ranks, (method, task, given), timeout_s=timeout_s, on_message=hear)
    return TrainRun.of(find_method(method), task, chosen, outcomes)


def read(method: str, task: Task, ranks: int, settings: Mapping[str, object]) -> Any:
    """The settings of a run that can be done. Raises BadInput, UnknownName."""
    found = find_method(method)
    batch_indices(task, 0, len(get_model(task.model).data().inputs))
    chosen = read_settings(found.settings, settings)
    found.refuse(task, ranks, chosen)
    return chosen


def work(rank: Rank, method: str, task: Task, settings: Mapping[str, object]) -> Outcome:
    """One rank's run: what it saw of every step, and how its weights do on the test data."""
    found = find_method(method)
    worker = Worker(task, rank, helpers=found.helpers, splits_batch=found.splits_batch)
    with closing(worker.wire):
        steps = tuple(_steps(worker, found.run(worker, read_settings(found.settings, settings)), rank))
    test_loss, accuracy_frac = worker.evaluate()
    return Outcome(steps, test_loss, accuracy_frac, worker.flat.weights.numpy(), dict(worker.notes))


def _steps(worker: Worker, losses: Losses, rank: Rank) -> Iterator[Step]:
    """Every step with the time it took and the bytes it sent; the launcher hears of some."""
    every = max(1, worker.task.steps // REPORTS)
    started_s, sent_B = time.perf_counter(), 0
    for number, loss in enumerate(losses, 1):
        now_s = time.perf_counter()
        yield Step(loss, now_s - started_s, worker.wire.sent_B - sent_B)
        started_s, sent_B = now_s, worker.wire.sent_B
        if rank.number == 0 and number % every == 0:
            rank.tell(number)
