"""Batches and forecasts: sizes by measured time, few under way, the time that is left by what was measured."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from typing import Any

import pytest
from distributed import LocalCluster, Scheduler, SchedulerPlugin

from lockstep.base.engines import Answered, Asking, Batch, Dask, Engine, Processes, Questions, Serial
from lockstep.base.engines.batches import MOST_GROWTH, MOST_TASKS, TARGET_S, Batches
from lockstep.base.engines.cluster import local_cluster
from lockstep.base.engines.forecast import MANY, MEASURED_S, Forecast
from lockstep.base.errors import BadInput


def batches(number: int, together: bool = True) -> Batches:
    return Batches(Questions(abs, range(number), {}), iter(range(number)), together=together)


@pytest.mark.parametrize("task_s", [1e-6, 1e-3, 0.05, 0.25, 10.0])
def test_batches_grow_until_they_reach_the_target_time(task_s: float) -> None:
    given, sizes = batches(1_000_000), []
    for _ in range(12):
        batch = next(given)
        sizes.append(len(batch.tasks))
        given.measured(Answered(batch, [], seconds=task_s * len(batch.tasks)))
    assert sizes[0] == 1
    assert all(later <= MOST_GROWTH * before for before, later in pairwise(sizes))
    # As many as take the time, and not one more; of tasks that take no time at most so many.
    assert sizes[-1] == MOST_TASKS or TARGET_S * 0.999 <= sizes[-1] * task_s < TARGET_S * 1.001 + task_s


def test_every_task_is_in_one_batch() -> None:
    seen: list[int] = []
    given = batches(1000)
    for batch in given:
        assert batch.places == batch.tasks
        seen += batch.tasks
        given.measured(Answered(batch, [], seconds=0.01 * len(batch.tasks)))
    assert seen == list(range(1000))
    assert [len(batch.tasks) for batch in batches(3, together=False)] == [1, 1, 1]


@pytest.mark.parametrize("task_s", [1e-3, 0.1, 10.0])
def test_tasks_that_share_work_stay_in_one_batch(task_s: float) -> None:
    questions = Questions(abs, range(97), {}, alike=lambda place: place // 5)
    given, groups = Batches(questions, iter(range(97))), list[set[int]]()
    for batch in given:
        groups.append({place // 5 for place in batch.places})
        given.measured(Answered(batch, [], seconds=task_s * len(batch.tasks)))
    assert sum(map(len, groups)) == len(set().union(*groups)) == 20
    # A task that may end its process is asked alone, whatever it shares.
    assert [len(batch.tasks) for batch in Batches(questions, iter(range(7)), alone=True)] == [1] * 7


class Shared:
    """Answers with the tasks that it was told of together."""

    told: tuple[int, ...] = ()

    def together(self, tasks: Sequence[int]) -> AbstractContextManager[None]:
        self.told = tuple(tasks)
        return nullcontext()

    def __call__(self, task: int) -> list[int]:
        return list(self.told)


@pytest.mark.parametrize("engine", [Serial(), Processes(2)])
def test_distant_questions_that_share_work_are_answered_together(engine: Engine) -> None:
    questions = Questions(Shared(), range(12), {}, alike=lambda place: place % 4)
    answers = dict(Asking(questions, engine))
    assert all(set(range(place % 4, 12, 4)) <= set(told) for place, told in answers.items())


class Counted:
    """Batches that count how many were taken and not given back."""

    def __init__(self, number: int) -> None:
        self._batches = iter([Batch((place,), (0.02,)) for place in range(number)])
        self.taken = self.most = self.back = 0

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        batch = next(self._batches)
        self.taken += 1
        self.most = max(self.most, self.taken - self.back)
        return batch


def test_at_most_two_batches_are_in_flight_per_worker_thread() -> None:
    with local_cluster(1, threads=3) as scheduler:
        for engine, threads in ((Serial(), 1), (Processes(2), 2), (Dask(address=scheduler.scheduler_address), 3)):
            counted = Counted(40)
            for _ in engine.run(time.sleep, counted):
                counted.back += 1
            assert counted.back == 40
            # One more is answered and not yet seen by us for each thread of local processes.
            assert counted.most <= 2 * threads + 1


class Placed(SchedulerPlugin):
    """Counts on a scheduler how many batches each worker had at most, and had in all."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler, self.most, self.had = scheduler, Counter[str](), Counter[str]()

    def transition(self, key: Any, start: str, finish: str, *_: Any, **__: Any) -> None:
        worker = self.scheduler.tasks[key].processing_on if finish == "processing" else None
        if worker is not None:
            self.had[worker.address] += 1
            self.most[worker.address] = max(self.most[worker.address], len(worker.processing))


def test_every_worker_is_busy_with_at_most_two_batches() -> None:
    workers, rounds = 4, 10
    with LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        processes=False,
        dashboard_address=None,
        host="127.0.0.1",
        protocol="tcp://",
    ) as cluster:
        placed = Placed(cluster.scheduler)
        cluster.scheduler.add_plugin(placed)
        given = iter([Batch((place,), (0.05,)) for place in range(workers * rounds)])
        assert sum(1 for _ in Dask(address=cluster.scheduler_address).run(time.sleep, given)) == workers * rounds
    assert max(placed.most.values()) == 2
    assert len(placed.had) == workers


def of(seconds: float, worker: str, workers: int = 4) -> Answered:
    return Answered(Batch((0, 1), (0, 0)), [b"", b""], seconds, worker, workers)


def test_a_forecast_excludes_the_first_load_and_is_made_once() -> None:
    forecast = Forecast(1000, most_s=1e9)
    assert forecast.measured(of(500.0, "a"), 998) is None
    assert forecast.measured(of(500.0, "b"), 996) is None
    assert forecast.measured(of(1.0, "a"), 994) is None
    said = forecast.measured(of(1.0, "b"), 992)
    # 0.5 s each: 992 of them on 4 workers, and on as many as are compared with.
    assert said == f"1,000 questions: about 2.07 min on 4 workers, 31 s on {MANY}"
    assert forecast.measured(of(1e6, "b"), 990) is None


def test_a_forecast_above_the_limit_is_refused() -> None:
    forecast = Forecast(1000, most_s=60.0)
    forecast.measured(of(0.0, "a"), 998)
    assert forecast.measured(of(0.0, "a"), 996) is None
    with pytest.raises(BadInput, match=r"1,000 questions would take about .* on 4 workers, at 1 s each in the first 4"):
        forecast.measured(of(2 * MEASURED_S, "a"), 994)


def test_the_forecast_is_reported_to_the_progress_callback(monkeypatch: pytest.MonkeyPatch) -> None:
    from lockstep.base.engines import forecast

    monkeypatch.setattr(forecast, "MEASURED_S", 0.01)
    monkeypatch.setattr(forecast, "SAID_S", 0.0)

    class Watch:
        said: list[str]

        def __init__(self) -> None:
            self.said = []

        def __call__(self, done: int, total: int) -> None: ...

        def say(self, text: str) -> None:
            self.said.append(text)

    watch = Watch()
    list(Asking(Questions(time.sleep, [0.01] * 20, {}), Serial(), progress=watch))
    assert len(watch.said) == 1
    assert watch.said[0].startswith("20 questions: about ")
