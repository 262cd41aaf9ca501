"""`Case`, one published measurement beside the job that it was measured on, and `Table`, a source's cases."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources

from lockstep.hardware import Cluster
from lockstep.layout import Job, Layout


@dataclass(frozen=True, slots=True)
class Case:
    """A measured quantity and everything needed to predict it."""

    row: str
    """The row's name in the published table."""
    quantity: str
    """step_time_s, or one of the memory quantities in bytes."""
    measured: float
    job: Job
    cluster: Cluster
    layout: Layout
    predict: Callable[[Case], float]
    """Lockstep's value of the same quantity."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """Cases from one source that share a tolerance on the median absolute error."""

    name: str
    quantity: str
    source: str
    tolerance_frac: float
    cases: Callable[[], tuple[Case, ...]]


def read_rows(file: str) -> list[dict[str, str]]:
    """Rows of a packaged table of published measurements."""
    text = resources.files("lockstep.validation").joinpath(f"tables/{file}").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))
