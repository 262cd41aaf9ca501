"""Runs a method on real ranks: `train` starts them, `work` is what each of them does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lockstep.base.errors import BadInput, RunFailed
from lockstep.base.settings import read_settings
from lockstep.run.launch import launch, place
from lockstep.run.launch.points import point
from lockstep.run.machine import LoadMeter, gather_sites, this_machine
from lockstep.run.profiling import Profiling
from lockstep.run.train.method import Losses, find_method
from lockstep.run.train.models import get_model
from lockstep.run.train.result import Outcome, Step, TrainRun, is_late, refuse_straggler
from lockstep.run.train.saving import Saver, Saving, words_of
from lockstep.run.train.task import Task, batch_indices
from lockstep.run.train.worker import Worker

if TYPE_CHECKING:
    from lockstep.run.launch import Fault, Rank
    from lockstep.simulate.failures.stragglers import LateRank

    Asked = tuple[str, Task, Mapping[str, object], Saving | None, LateRank | None, str | Path | None]


def train(
    method: str,
    task: Task,
    ranks: int,
    settings: Mapping[str, object] | None = None,
    *,
    saving: Saving | None = None,
    restarts: int = 0,
    timeout_s: float = 60.0,
    straggler: LateRank | None = None,
    profile: str | Path | None = None,
    faults: Sequence[Fault] = (),
    on_step: Callable[[int, Step], None] | None = None,
    on_failure: Callable[[str], None] | None = None,
) -> TrainRun:
    """One run of a method on `ranks` processes of this machine (or as one rank of torchrun's).

    Args: `settings` of the method, as values or text; `saving`, checkpoints; `restarts`, how often a run that fails is
    begun again from its newest checkpoint; `timeout_s`, the longest wait of one rank for another; `straggler`, a rank
    to make late in every second step; `profile`, a folder for the profile of each rank; `faults` to inject into the
    first attempt; `on_step(steps done, what a rank that sees losses saw of the last)`; `on_failure(why)` before it is
    begun again.
    Raises: BadInput, UnknownName, RunFailed.
    """
    given = dict(settings or {})
    chosen = read(method, task, ranks, given)
    if saving is not None:
        find_method(method).refuse_saving()
    if restarts and saving is None:
        raise BadInput("a run can only be restarted from a checkpoint: give a folder for checkpoints", "--restarts")
    if straggler is not None:
        refuse_straggler(straggler, ranks, task.steps)
    if saving is not None:
        saving.check_writable()
    failures: list[str] = []
    while True:
        asked = (method, task, given, saving, straggler, profile)
        try:
            outcomes = _attempt(asked, ranks, timeout_s, () if failures else faults, on_step)
            return TrainRun.of(find_method(method), task, chosen, outcomes, tuple(failures), straggler)
        except RunFailed as error:
            if len(failures) == restarts:
                raise
            failures.append(str(error))
            if on_failure is not None:
                on_failure(failures[-1])
            saving = replace(saving, resume=True) if saving else None


def _attempt(
    asked: Asked, ranks: int, timeout_s: float, faults: Sequence[Fault], on_step: Callable[[int, Step], None] | None
) -> list[Outcome]:
    """What every rank saw of one launch."""
    method, task, settings, saving, *_ = asked
    if saving is not None:
        saving.newest(words_of(method, task, settings), task.steps)

    # A rank that torchrun or Slurm started hears itself alone; here the one that sees losses is listened to.
    needs_loss = place() is None and not find_method(method).rank_0_sees_losses
    speakers: list[int] = []

    def hear(rank: int, told: tuple[int, Step]) -> None:
        if on_step is None or (needs_loss and told[1].loss is None):
            return
        # Several may, as at both ends of some pipelines: the first one to speak goes on.
        if not speakers:
            speakers.append(rank)
        if rank == speakers[0]:
            on_step(*told)

    return launch(work, ranks, asked, timeout_s=timeout_s, faults=faults, on_message=hear)


def read(method: str, task: Task, ranks: int, settings: Mapping[str, object]) -> Any:
    """The settings of a run that can be done. Raises BadInput, UnknownName."""
    found = find_method(method)
    batch_indices(task, 0, len(get_model(task.model).data().inputs))
    chosen = read_settings(found.settings, settings)
    found.refuse(task, ranks, chosen)
    return chosen


def work(
    rank: Rank, method: str, task: Task, settings: Mapping[str, object], saving: Saving | None = None,
    straggler: LateRank | None = None, profile: str | Path | None = None,
) -> Outcome:  # fmt: skip
    """One rank's run: what it saw of every step, and how its weights do on the test data."""
    found = find_method(method)
    worker = Worker(task, rank, helpers=found.helpers, splits_batch=found.splits_batch)
    saver = None
    if saving is not None:
        words = words_of(method, task, settings)
        worker.resumed = saving.newest_for_all(words, task.steps)
        saver = Saver(saving, worker, words, rank.timeout_s)
    meter = LoadMeter()
    with closing(worker.wire), closing(Profiling(profile, rank.number)) as profiling:
        losses = found.run(worker, read_settings(found.settings, settings))
        own = straggler is not None and straggler.rank == rank.number

        def tell(number: int, step: Step) -> None:
            if rank.number == 0 or (step.loss is not None and not found.rank_0_sees_losses):
                rank.tell((number, step))

        delay_s = straggler.delay_s if straggler and own else 0.0
        steps = tuple(_steps(worker, losses, tell, saver, delay_s, profiling))
    saves = saver.close() if saver is not None else {}
    point("before_evaluation")
    load = meter.read()
    machine = this_machine(loopback=gather_sites(rank).loopback)
    test_loss, accuracy_frac = worker.evaluate()
    first, passed_over = (worker.resumed.step, worker.resumed.passed_over) if worker.resumed else (0, ())
    weights = worker.flat.weights.numpy()
    return Outcome(
        steps, test_loss, accuracy_frac, weights, dict(worker.notes), machine, load, first, saves, passed_over
    )


def _steps(
    worker: Worker, losses: Losses, tell: Callable[[int, Step], None], saver: Saver | None, delay_s: float,
    profiling: Profiling,
) -> Iterator[Step]:  # fmt: skip
    """Every step with the time it took and the bytes it sent; `tell` hears of it with its number.

    Steps that are late (`is_late`) begin with the delay.
    """
    profiling.step(worker.first_step + 1)
    started_s, sent_B = time.perf_counter(), 0
    for number, loss in enumerate(losses, worker.first_step + 1):
        step = Step(loss, time.perf_counter() - started_s, worker.wire.sent_B - sent_B, dict(worker.scalars))
        yield step
        if saver is not None:
            saver.after_step(number)
        tell(number, step)
        profiling.step(number + 1)
        started_s, sent_B = time.perf_counter(), worker.wire.sent_B
        if delay_s and is_late(number + 1):
            time.sleep(delay_s)
