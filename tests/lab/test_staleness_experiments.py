"""Experiments on old gradients: recursions written out, answers of yes or no, and how far off a search may end."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lockstep
from lockstep.learn.lab.descent.delayed import RESOLUTION
from lockstep.learn.lab.experiments.staleness import delay_iterations, delay_stability, hogwild, nonconvex_delay
from lockstep.learn.lab.objectives import LANDSCAPES


def updates_below(start: float, rate: float, delay: int, below: float, steps: int) -> int:
    """Updates after which x <- x - a x(t - delay), by a list, stays at or below a size."""
    path = [start]
    for place in range(steps):
        path.append(path[-1] - rate * path[max(place - delay, 0)])
    return max(place for place, x in enumerate(path) if abs(x) > below) + 1


@pytest.mark.parametrize("delay", [0, 1, 4, 9])
def test_updates_at_a_fixed_step_match_the_explicit_recursion(delay: int) -> None:
    start = 5 * math.sqrt(2)
    assert delay_iterations._fixed_step_updates(delay) == updates_below(start, 0.1, delay, 0.01, 200)
    assert delay_iterations._fixed_step_updates(0) == math.ceil(math.log(start / 0.01) / -math.log(0.9))


@pytest.mark.parametrize("delay", [5, 50])
def test_a_run_with_half_the_safe_step_takes_some_delays_and_not_their_square(delay: int) -> None:
    found = delay_iterations._updates_at_once(delay)
    assert found == updates_below(1.0, 0.5 / delay, delay, 0.01, 40 * delay)
    assert delay < found < 40 * delay


def test_yes_no_answers_are_checked_as_one_and_zero() -> None:
    """What is said to be stable is expected to be 1; the same runs by their roots say 0 for what is false."""
    with np.errstate(over="ignore", invalid="ignore"):
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


@given(st.floats(0.1, 50), st.integers(0, 500))
def test_the_largest_step_of_the_nonconvex_bound_meets_its_condition(smoothness: float, delay: int) -> None:
    """a L + 2 a^2 L^2 tau^2 = 1."""
    product = nonconvex_delay._largest_step(smoothness, delay) * smoothness
    assert product + 2 * product**2 * delay**2 == pytest.approx(1.0)


def test_the_nonconvex_bound_is_that_of_its_docstring() -> None:
    """2 D / (a T) + a L s^2 (1 + 2 a L tau) from 2 in four directions of the ripples, L = 3."""
    found = lockstep.converge("nonconvex-delay", {"delays": (0, 3), "noise_std": 0.5, "steps": 100, "trials": 10})
    ripples = LANDSCAPES["ripples"]
    assert (ripples.smoothness, ripples.dimension) == (3.0, 4)
    first = float(ripples.loss(np.full(4, 2.0)))
    laws = []
    for delay in (0, 3):
        step = 1 / 3 if delay == 0 else (math.sqrt(1 + 8 * 9) - 1) / (4 * 9) / 3
        laws.append(2 * first / (step * 100) + step * 3 * 4 * 0.25 * (1 + 2 * step * 3 * delay))
    assert [one.value for one in found.theory] == pytest.approx(laws)
    assert [one.expected for one in found.checks[:2]] == pytest.approx(laws)
    simulated, bound = found.curves
    assert bound.y == pytest.approx(laws)
    assert simulated.x.tolist() == bound.x.tolist() == [0.0, 3.0]
    assert found.agrees


def test_floors_at_the_safe_step_are_sums_of_squared_responses() -> None:
    """What one kick of noise leaves later, step by step, squared and added; without a delay a s^2 / (2 - a)."""
    found = lockstep.converge("delay-floor", {"delays": (0, 3), "noise_std": 2.0, "trials": 10})
    _, exact, plain = found.curves
    for place, delay in enumerate((0, 3)):
        step = 1 / (2 * (1 + delay))
        kick = [0.0] * delay + [step]
        for _ in range(2000):
            kick.append(kick[-1] - step * kick[-1 - delay])
        assert exact.y[place] == pytest.approx(4 * sum(x * x for x in kick), rel=1e-6)
        assert plain.y[place] == pytest.approx(4 * step / (2 - step))
    checks = {one.what: one for one in found.checks}
    assert checks["floor with delay / without"].got == pytest.approx(max(exact.y / plain.y))


@pytest.mark.parametrize("delay", [0, 2, 5])
def test_updates_where_noise_decides_are_those_of_the_mean_and_the_floor(delay: int) -> None:
    """The largest step, at most 1/2, whose floor is 0.9 of the loss to reach; then the mean decays to the rest."""
    settings = delay_iterations.Settings(noise_std=0.5, noisy_gap=0.01)
    step = delay_iterations._noisy_step(delay, settings)
    kick = [0.0] * delay + [step]
    for _ in range(20_000):
        kick.append(kick[-1] - step * kick[-1 - delay])
    rest = 0.25 * sum(x * x for x in kick) / 2
    assert rest == pytest.approx(0.9 * 0.01, rel=1e-6)
    path = [1.0]
    for place in range(3000):
        path.append(path[-1] - step * path[max(place - delay, 0)])
    reached = next(place for place, x in enumerate(path) if x * x / 2 <= 0.01 - rest)
    assert delay_iterations._noisy_updates(delay, settings) == pytest.approx(reached, abs=2 + 2 * delay, rel=0.02)
    quiet = delay_iterations.Settings(noise_std=1e-6, noisy_gap=0.01)
    assert delay_iterations._noisy_step(0, quiet) == pytest.approx(0.5)
