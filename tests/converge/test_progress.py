"""Every experiment says how far it is: part by part, to a total that stays, with nothing left but at most one part."""

from __future__ import annotations

import contextlib

import pytest

from converge.test_extremes import LEAST, smallest
from lockstep.converge import EXPERIMENTS, find_experiment

REST = ("loss-scaling", "implicit-bias-epochs", "generalization-gap")
"""Experiments whose total counts one more part, which is done after the last report."""
SLOW = (
    "objectives", "staleness-weights", "tolerable-delay", "error-feedback", "compression-time", "overflow",
    "critical-batch-digits", "large-batch", "implicit-bias-epochs", "reduction-orders", "norm-steps",
)  # fmt: skip
"""Those that take half a second or more even where their settings are at their least."""
QUICK = tuple(name for name in EXPERIMENTS if name not in SLOW)


class _SaidAllError(Exception):
    """Nothing more is to be reported."""


def reports(name: str) -> list[tuple[int, int]]:
    """(done, total) of every report; the run is left as soon as all is done."""
    said: list[tuple[int, int]] = []

    def progress(done: int, total: int) -> None:
        said.append((done, total))
        if done >= total:
            raise _SaidAllError

    one = find_experiment(name)
    with contextlib.suppress(_SaidAllError):
        one.answer(smallest(one.settings) | LEAST.get(name, {}), progress=progress)
    return said


def check(name: str) -> None:
    """Reports count the parts before or after each of them."""
    said = reports(name)
    assert said, "no report"
    first, total = said[0]
    part = max(first, 1)
    assert {one[1] for one in said} == {total}
    assert [done for done, _ in said] == list(range(first, total + min(first, 1) - (name in REST), part))
    assert part == 1 or name == "sgd-bound"


@pytest.mark.parametrize("name", QUICK)
def test_an_experiment_reports_its_parts_in_turn(name: str) -> None:
    check(name)


@pytest.mark.parametrize("name", SLOW)
def test_a_slow_experiment_reports_its_parts_in_turn(name: str) -> None:
    check(name)
