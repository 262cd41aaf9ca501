"""Which tests speak about an experiment of the lab: `pytest tests/lab --experiment NAME` runs those alone.

Nothing is listed by hand. A test is about an experiment when it is run with its name, or with a claim that it decides;
where a test is run with no experiment, when its own lines name the experiment or import its file.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import pytest

from lockstep.learn.lab import EXPERIMENTS


def experiments_of(item: pytest.Item) -> frozenset[str]:
    """The experiments that a test is about."""
    return _run_with(item) or _mentioned(inspect.unwrap(getattr(item, "obj", item)))


def _run_with(item: pytest.Item) -> frozenset[str]:
    """Experiments among the parameters of a test."""
    call = getattr(item, "callspec", None)
    values: Iterable[Any] = call.params.values() if call is not None else ()
    found = {getattr(value, "experiment", value) for value in values if isinstance(value, str) or hasattr(value, "ids")}
    return frozenset(found & set(EXPERIMENTS))


@cache
def _mentioned(function: Callable[..., Any]) -> frozenset[str]:
    """Experiments that the lines of a test name in quotes, or whose file defines what it uses."""
    text = inspect.getsource(function)
    used = (function.__globals__.get(name) for name in function.__code__.co_names)
    homes = {getattr(one, "__module__", None) or getattr(one, "__name__", "") for one in used}
    files = {home.rpartition(".")[2].replace("_", "-") for home in homes if "lab.experiments." in home}
    return frozenset(name for name in EXPERIMENTS if name in files or f'"{name}"' in text)
