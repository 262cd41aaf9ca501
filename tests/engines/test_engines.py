"""Engines: all answers once, the same everywhere, dead processes replaced, tasks that kill left out, errors raised."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import distributed
import pytest

from engines.engine_tasks import chatter, die_always, die_once, raise_at_three, square
from lockstep.base.engines import Asking, Dask, Engine, Processes, Questions, Serial, find_engine, silent
from lockstep.base.engines.cluster import local_cluster
from lockstep.base.errors import BadInput, UnknownName
from lockstep.base.types.progress import Progress

NAMES = ("serial", "processes", "dask")


def mapped(
    engine: Engine, function: Callable[..., Any], tasks: Sequence[Any], progress: Progress = silent
) -> list[Any]:
    """`function(task)` of every task, in order."""
    answers = list(Asking(Questions(function, tasks, {}), engine, progress=progress))
    assert sorted(place for place, _ in answers) == list(range(len(tasks))), "every task once"
    return [answer for _, answer in sorted(answers)]


def children() -> set[str]:
    """Processes that this one has, by any of its threads, where /proc lists them (Linux)."""
    return {pid for path in Path("/proc/self/task").glob("*/children") for pid in path.read_text().split()}


@contextmanager
def nothing_outlives_it() -> Iterator[None]:
    """No process that was started inside is left."""
    before = children()
    yield
    assert children() <= before


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    """A cluster at an address, with two workers."""
    with local_cluster(2) as cluster:
        yield cluster.scheduler_address


@pytest.fixture(params=NAMES)
def engine(request: pytest.FixtureRequest) -> Engine:
    if request.param == "dask":
        return Dask(address=request.getfixturevalue("scheduler"))
    return Processes(2) if request.param == "processes" else Serial()


def test_results_come_in_the_order_of_the_tasks(engine: Engine) -> None:
    seen: list[tuple[int, int]] = []
    results = mapped(engine, square, range(40), lambda done, total: seen.append((done, total)))
    assert [value for value, _ in results] == [number * number for number in range(40)]
    assert seen == sorted(seen)
    assert seen[-1] == (40, 40)


def test_work_runs_in_other_processes(scheduler: str) -> None:
    assert {pid for _, pid in mapped(Serial(), square, range(3))} == {os.getpid()}
    for engine in (Processes(2), Dask(address=scheduler)):
        pids = {pid for _, pid in mapped(engine, square, range(200))}
        assert os.getpid() not in pids
        assert len(pids) <= 2


@pytest.mark.parametrize("name", NAMES[1:])
def test_killed_workers_are_replaced(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    engine = Processes(2) if name == "processes" else Dask(address=request.getfixturevalue("scheduler"))
    tasks = [(str(tmp_path), number) for number in range(6)]
    assert mapped(engine, die_once, tasks) == list(range(6))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "4"]


@pytest.mark.parametrize("name", NAMES[1:])
def test_a_task_that_kills_every_process_is_left_out_by_name(name: str, request: pytest.FixtureRequest) -> None:
    engine = Processes(2) if name == "processes" else Dask(address=request.getfixturevalue("scheduler"))
    with nothing_outlives_it():
        asking = Asking(Questions(die_always, range(30), {}, name=lambda task: f"number {task}"), engine)
        answers = dict(asking)
    assert answers == {number: number for number in range(30) if number != 2}
    assert [(one.place, one.name) for one in asking.left_out] == [(2, "number 2")]
    assert "killed 3 processes in a row" in asking.left_out[0].why


def test_exceptions_of_a_task_are_raised_in_the_caller(engine: Engine) -> None:
    with nothing_outlives_it(), pytest.raises(KeyError, match="three"):
        mapped(engine, raise_at_three, range(6))


def test_prints_do_not_disturb_the_answers() -> None:
    with nothing_outlives_it():
        assert mapped(Processes(2), chatter, range(8)) == list(range(8))


def test_no_process_starts_without_tasks(engine: Engine) -> None:
    assert mapped(engine, square, []) == []


@pytest.mark.parametrize(
    ("text", "engine"),
    [
        ("serial", Serial()),
        ("processes:3", Processes(3)),
        ("dask", Dask()),
        ("dask:2", Dask(workers=2)),
        ("dask:tcp://10.0.0.1:8786", Dask(address="tcp://10.0.0.1:8786")),
        ("dask:tls://10.0.0.1:8786", Dask(address="tls://10.0.0.1:8786")),
        ("dask:scheduler-file:/shared/s.json", Dask(scheduler_file="/shared/s.json")),
    ],
)
def test_engines_by_name(text: str, engine: Engine) -> None:
    assert find_engine(text) == engine


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("serial:2", "takes nothing"),
        ("dask:", "address"),
        ("dask:10.0.0.1:8786", "as tcp://"),
        ("processes:0", "at least 1"),
        ("processes:x", "--engine"),
        ("processes:100000", "at most 1000"),
    ],
)
def test_invalid_engines_are_refused(text: str, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        find_engine(text)


def test_unknown_engines_are_named() -> None:
    with pytest.raises(UnknownName, match="did you mean processes"):
        find_engine("process")


def test_an_unreachable_scheduler_address_is_bad_input(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(*words: Any, **more: Any) -> None:
        raise OSError("Timed out trying to connect")

    monkeypatch.setattr(distributed, "Client", nobody)
    with pytest.raises(BadInput, match="no Dask scheduler answers at tcp"):
        mapped(Dask(address="tcp://127.0.0.1:1"), square, [1])
