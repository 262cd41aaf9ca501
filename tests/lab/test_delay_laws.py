"""Laws of delayed descent against independent oracles: roots, linear solves, brute force, golden values."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.learn.lab.descent.delayed import descend, distances, follow, growth, settled
from lockstep.learn.lab.laws import best_step, companion, floor, largest_stable_step, rate, stationary_variance
from lockstep.learn.lab.statistics import SignNoise

DELAYS = st.integers(0, 40)
MOMENTA = st.floats(0, 0.97)


def polynomial_radius(step: float, delay: int, momentum: float) -> float:
    """Largest root of z^(tau+1) - (1 + beta) z^tau + beta z^(tau-1) + a lambda."""
    coefficients = np.zeros(max(delay, 1) + 2)
    coefficients[0] = 1
    coefficients[1] -= 1 + momentum
    coefficients[2] += momentum
    coefficients[delay + 1] += step
    return float(np.abs(np.roots(coefficients)).max())


@given(DELAYS, MOMENTA)
def test_the_stability_limit_separates_stable_from_unstable_roots(delay: int, momentum: float) -> None:
    edge = largest_stable_step(delay, momentum)
    assert polynomial_radius(0.995 * edge, delay, momentum) < 1 + 1e-9
    assert polynomial_radius(1.005 * edge, delay, momentum) > 1


@given(DELAYS, MOMENTA, st.floats(0.001, 2))
def test_the_rate_is_the_largest_root(delay: int, momentum: float, step: float) -> None:
    # Multiple roots are only known to the root of the rounding error.
    assert rate(step, delay, momentum) == pytest.approx(polynomial_radius(step, delay, momentum), rel=1e-4)


@given(st.floats(0.01, 1.99), st.floats(0.1, 10.0))
def test_the_variance_without_delay_solves_the_same_equation(product: float, curvature: float) -> None:
    alone = stationary_variance(product / curvature, curvature, 4.0)
    assert float(alone) == pytest.approx(floor(product / curvature, curvature, 0, noise_std=2.0), rel=1e-6)
    assert stationary_variance(2 / curvature, curvature, 4.0) == np.inf


def test_stability_limits_match_golden_values() -> None:
    for delay, edge in ((0, 2), (1, 1), (2, 0.618034), (5, 0.284630), (10, 0.149460), (50, 0.031104), (100, 0.015630)):
        assert largest_stable_step(delay) == pytest.approx(edge, rel=1e-4)
    for delay, momentum, edge in (
        (0, 0.9, 3.8),
        (1, 0.9, 0.1),
        (2, 0.9, 0.051249),
        (10, 0.9, 0.011390),
        (5, 0.5, 0.128552),
    ):
        assert largest_stable_step(delay, momentum) == pytest.approx(edge, rel=1e-4)


@given(st.integers(1, 200))
def test_the_stability_limit_lies_between_its_simple_bounds(delay: int) -> None:
    edge = largest_stable_step(delay)
    assert math.pi / (2 * (delay + 1)) <= edge <= math.pi / (2 * delay + 1)
    assert edge * delay >= 1 - 1e-12


@given(st.integers(0, 12), st.floats(0, 0.9), st.floats(0.05, 0.9))
def test_the_floor_solves_the_lyapunov_equation(delay: int, momentum: float, share: float) -> None:
    step = share * largest_stable_step(delay, momentum)
    matrix = companion(step, delay, momentum)
    size = len(matrix)
    noise = np.zeros((size, size))
    noise[0, 0] = step**2
    exact = np.linalg.solve(np.eye(size * size) - np.kron(matrix, matrix), noise.ravel())[0]
    assert floor(step, 1.0, delay, momentum) == pytest.approx(exact, rel=1e-6)


def test_noise_floors_and_steps_match_golden_values() -> None:
    for delay, value in ((0, 1 / 3), (1, 5 / 27), (2, 0.128527), (5, 0.067087), (10, 0.037351), (20, 0.019801)):
        assert floor(1 / (2 * (1 + delay)), 1.0, delay) == pytest.approx(value, rel=1e-4)
    assert floor(0.5, 1.0, 0, noise_std=3.0) == pytest.approx(9 / 3)
    assert floor(2.5, 1.0, 0) == math.inf
    for delay, step, updates in ((0, 1.980, 460.5), (1, 0.980, 925.6), (5, 0.2785, 3256), (10, 0.1462, 6201)):
        found, factor = best_step(delay, 100.0)
        assert found == pytest.approx(step, rel=1e-3)
        assert math.log(1e-4) / math.log(factor) == pytest.approx(updates, rel=1e-3)


@pytest.mark.parametrize("delay", [0, 1, 3])
@pytest.mark.parametrize("momentum", [0.0, 0.6])
def test_the_fast_run_is_the_plain_recursion(delay: int, momentum: float) -> None:
    """Two trials with steps of their own, beside a loop over lists."""
    curvatures, steps = np.array([0.3, 1.0]), np.array([0.1, 0.2])
    made = descend(curvatures, np.ones((2, 2)), steps, delay=delay, momentum=momentum, steps=12)
    for trial, step in enumerate(steps):
        path, velocity = [np.ones(2)], np.zeros(2)
        for place in range(12):
            velocity = momentum * velocity + curvatures * path[max(place - delay, 0)]
            path.append(path[-1] - step * velocity)
        expected = [float(0.5 * (curvatures * x**2).sum()) for x in path]
        np.testing.assert_allclose(made.losses[:, trial], expected, rtol=1e-12)


@given(st.lists(st.integers(0, 6), min_size=1, max_size=40), st.floats(0, 0.8))
def test_a_run_along_a_schedule_is_the_plain_recursion(delays: list[int], momentum: float) -> None:
    read = np.maximum(np.arange(len(delays)) - delays, 0)
    sizes = np.linspace(0.05, 0.2, len(delays))
    made = follow(read, lambda x: x, lambda x: x[:, 0], np.ones((1, 1)), sizes, momentum=momentum)
    path, velocity = [1.0], 0.0
    for place, seen in enumerate(read):
        velocity = momentum * velocity + path[seen]
        path.append(path[-1] - sizes[place] * velocity)
    np.testing.assert_allclose(made.losses[:, 0], path, rtol=1e-12)


def test_noise_has_its_moments_and_is_independent() -> None:
    noise = SignNoise.of(2.0, (1000, 37), np.random.default_rng(0))
    drawn = np.stack([noise.draw().copy() for _ in range(20)])
    assert set(np.unique(drawn)) == {-2.0, 2.0}
    count = drawn.size
    assert abs(drawn.mean()) < 5 * 2 / math.sqrt(count)
    for shift in ((1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 0, 8)):
        other = np.roll(drawn, shift, axis=(0, 1, 2))
        assert abs((drawn * other).mean()) < 5 * 4 / math.sqrt(count)


def test_growth_of_an_oscillating_run_is_measured() -> None:
    steps = np.arange(400)
    assert growth(np.abs(0.97**steps * np.cos(0.3 * steps))) == pytest.approx(0.97, abs=2e-3)
    assert growth(1.02**steps) == pytest.approx(1.02, rel=1e-9)


def test_divergence_raises_no_warning() -> None:
    """Warnings are errors here."""
    import lockstep

    found = lockstep.converge("async-momentum", {"step_size": 1.5, "steps": 5000})
    assert any(curve.diverged_at is not None for curve in found.curves)


@given(st.floats(0.01, 1.99), st.integers(1, 30))
def test_one_run_without_noise_shrinks_by_a_factor_per_step(step: float, steps: int) -> None:
    assert distances(step, steps) == pytest.approx(abs(1 - step) ** np.arange(steps + 1), abs=1e-12)


def test_settled_losses_are_those_of_the_floor_and_their_spread_that_of_trials() -> None:
    losses = settled(0.1, 2.0, 2000, 400, curvature=3.0, delay=1, seed=5)
    law, error = 1.5 * floor(0.1, 3.0, 1, noise_std=2.0), losses.std() / math.sqrt(2000)
    assert losses.shape == (2000,)
    assert abs(losses.mean() - law) < 4 * error < 0.1 * law
