"""BLAS has one thread for what Lockstep computes itself, and as many as before for whatever its user does next."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from engines.test_engines import mapped
from lockstep.base.engines import Processes, Serial
from lockstep.base.engines.threads import one_blas_thread
from lockstep.learn.lab import Experiment, Findings, find_experiment

MANY = 3


def blas_threads(_: object = None) -> list[int]:
    """Threads of each BLAS in this process."""
    return sorted({library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"})


@pytest.fixture
def many_threads() -> Iterator[None]:
    """As on a machine with cores to spare, whatever the suite runs with."""
    assert np.ones(2) @ np.ones(2) == 2.0
    with threadpool_limits(MANY, user_api="blas"):
        if blas_threads() != [MANY]:
            pytest.skip("this BLAS has no number of threads that can be set")
        yield


@pytest.fixture
def watched() -> tuple[Experiment, list[list[int]]]:
    """An experiment, and the threads that BLAS had whenever it ran."""
    known, seen = find_experiment("communication-bound"), list[list[int]]()

    def run(*given: Any) -> Findings:
        seen.append(blas_threads())
        return known.run(*given)

    return replace(known, run=run), seen


def test_an_experiment_uses_one_thread_and_restores_the_previous_number(
    many_threads: None, watched: tuple[Experiment, list[list[int]]]
) -> None:
    experiment, seen = watched
    experiment.answer({})
    assert (seen, blas_threads()) == ([[1]], [MANY])


def test_every_engine_task_uses_one_blas_thread(many_threads: None) -> None:
    for engine in (Serial(), Processes(1)):
        assert mapped(engine, blas_threads, [0, 1]) == [[1], [1]]
    assert blas_threads() == [MANY]


def test_the_thread_limit_can_be_nested(many_threads: None) -> None:
    with one_blas_thread():
        with one_blas_thread():
            assert blas_threads() == [1]
        assert blas_threads() == [1]
    assert blas_threads() == [MANY]


def test_the_thread_limit_is_restored_after_an_error(many_threads: None) -> None:
    with pytest.raises(ZeroDivisionError), one_blas_thread():
        raise ZeroDivisionError
    assert blas_threads() == [MANY]


def test_a_plan_does_not_import_threadpoolctl() -> None:
    plan = "lockstep.plan('gpt2', 'dgx-a100-40gb:1', batch=64)"
    code = f"import sys, lockstep; {plan}; print('threadpoolctl' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
