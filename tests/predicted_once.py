"""What is computed once for all processes of a run, as it takes seconds and many tests ask: tables, experiments."""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import pytest

PATIENCE_S = 300.0
"""A process that waits longer for another one computes it itself."""
Made = TypeVar("Made")
_folder: Path | None = None
"""Where the processes of a run leave it; None where a process is alone."""


def between_processes(factory: pytest.TempPathFactory) -> bool:
    """Whether there are several processes, which from here on find what another one has computed."""
    global _folder
    if "PYTEST_XDIST_WORKER" in os.environ:
        _folder = factory.getbasetemp().parent / "computed"
        _folder.mkdir(exist_ok=True)
    return _folder is not None


def once(name: str, make: Callable[[], Made]) -> Made:
    """What `make` gives, which the first process that asks for `name` leaves for the others."""
    if _folder is None:
        return make()
    done, claim = _folder / f"{name}.done", _folder / f"{name}.claim"
    try:
        claim.touch(exist_ok=False)
    except FileExistsError:
        until_s = time.monotonic() + PATIENCE_S
        while not done.exists() and time.monotonic() < until_s:
            time.sleep(0.05)
        if done.exists():
            known: Made = pickle.loads(done.read_bytes())
            return known
    found = make()
    written = _folder / f"{name}.{os.getpid()}"
    written.write_bytes(pickle.dumps(found))
    written.rename(done)
    return found


def shared(predict: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`predict` of a published table, once for all processes."""

    @cache
    def report(table: Any) -> Any:
        return replace(once(table.name, lambda: replace(predict(table), table=None)), table=table)

    return report


@cache
def experiment(name: str) -> Any:
    """The findings of an experiment of the lab with its default settings."""
    import lockstep

    return once(f"lab {name}", lambda: lockstep.converge(name))
