"""Experiments on old gradients: recursions written out, answers of yes or no, and how far off a search may end."""

from __future__ import annotations

import math

import pytest

import lockstep
from lockstep.converge.descent.stability import RESOLUTION
from lockstep.converge.experiments.staleness import delay_iterations, delay_stability, hogwild


def updates_below(start: float, rate: float, delay: int, below: float, steps: int) -> int:
    """Updates after which x <- x - a x(t - delay), by a list, stays at or below a size."""
    path = [start]
    for place in range(steps):
        path.append(path[-1] - rate * path[max(place - delay, 0)])
    return max(place for place, x in enumerate(path) if abs(x) > below) + 1


@pytest.mark.parametrize("delay", [0, 1, 4, 9])
def test_updates_at_a_fixed_step_are_those_of_the_written_out_recursion(delay: int) -> None:
    start = 5 * math.sqrt(2)
    assert delay_iterations._fixed_step_updates(delay) == updates_below(start, 0.1, delay, 0.01, 200)
    assert delay_iterations._fixed_step_updates(0) == math.ceil(math.log(start / 0.01) / -math.log(0.9))


@pytest.mark.parametrize("delay", [5, 50])
def test_a_run_with_half_the_safe_step_takes_some_delays_and_not_their_square(delay: int) -> None:
    found = delay_iterations._updates_at_once(delay)
    assert found == updates_below(1.0, 0.5 / delay, delay, 0.01, 40 * delay)
    assert delay < found < 40 * delay


def test_yes_is_one_and_no_is_nought() -> None:
    """What is said to be stable is expected to be 1; the same runs by their roots say 0 for what is false."""
    checks = [*delay_stability._rules([2], [0.0]), *delay_stability._false_laws([2], 1000)]
    asked = {
        one.what: one for one in checks if "stable, " in one.what or "shrinks" in one.what or "a = 1/L" in one.what
    }
    said = {what: (one.expected, one.got) for what, one in asked.items()}
    assert said == {
        "0.1 / (mu (1 + tau)) is stable, condition number 100": (1.0, 0.0),
        "a lambda = 0.01, delay 1.5 / a: shrinks (1 = yes)": (1.0, 1.0),
        "a = 1/L converges with delay 2": (1.0, 0.0),
    }
    (safe,) = [one for one in checks if "are safe" in one.what]
    assert (safe.expected, safe.got, safe.false_law) == (1.0, 0.0, True)
    assert all(one.ok for one in checks)


@pytest.mark.parametrize(
    ("resolutions", "agrees"), [(0.0, True), (1.9, True), (-1.9, True), (2.1, False), (-2.1, False)]
)
def test_the_dense_edge_is_found_within_two_resolutions_of_the_search(
    monkeypatch: pytest.MonkeyPatch, resolutions: float, agrees: bool
) -> None:
    """With a delay of 1 the edge is 2 sin(pi / 6) = 1."""
    monkeypatch.setattr(hogwild, "searched_edge", lambda *_: 1.0 + resolutions * RESOLUTION)
    found = lockstep.converge("hogwild", {"delay": 1, "densities": (1.0,), "touches": 100})
    (check,) = [one for one in found.checks if one.what == "largest step, dense"]
    assert check.expected == pytest.approx(1.0)
    assert check.ok is agrees
