"""How many cases a test tries: a share in every run, all of them in `bash check --long`.

For tests whose cases are many and alike, so that the next one rarely finds what the others did not. What stands for a
rule of its own (an algorithm, a schedule, an experiment) is always tried.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

ALL = os.environ.get("LOCKSTEP_ALL_CASES") == "1"
T = TypeVar("T")


def share(cases: Sequence[T], one_in: int, begin: int = 0) -> list[T]:
    """Every `one_in`-th case from `begin` on (taken modulo `one_in`); all of them with `LOCKSTEP_ALL_CASES=1`.

    With a `begin` that differs from one list to the next (the place of an experiment, say), shares of several lists
    differ too.
    """
    return list(cases) if ALL else list(cases[begin % one_in :: one_in])


def drawn(most: int) -> int:
    """How many examples of a property are drawn: `most` with `LOCKSTEP_ALL_CASES=1`, else a quarter of them."""
    return most if ALL else -(-most // 4)
