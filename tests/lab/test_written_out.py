"""Objectives, curvatures, steps and noisy runs of the lab, written out once more from their definitions."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lab.test_least_runs import given
from lockstep.learn.lab import find_experiment
from lockstep.learn.lab.experiments.descent import sgd_bound
from lockstep.learn.lab.experiments.staleness import delay_iterations
from lockstep.learn.lab.laws import floor
from lockstep.learn.lab.objectives import LANDSCAPES, digits_logistic, digits_perceptron
from lockstep.learn.lab.objectives.objective import curvature_along, sharpness
from lockstep.learn.lab.objectives.quadratic import Quadratic
from lockstep.learn.lab.statistics import SignNoise
from lockstep.learn.methods.data import digits


class Bowl:
    """x'Ax / 2 + b'x with any symmetric A."""

    def __init__(self, hessian: np.ndarray, slope: np.ndarray) -> None:
        self.hessian, self.slope, self.dimension = hessian, slope, len(slope)

    def gradient(self, parameters: np.ndarray) -> np.ndarray:
        return parameters @ self.hessian + self.slope


def drawn(seed: int) -> tuple[Bowl, np.ndarray, np.ndarray]:
    """A bowl or a saddle, a point, and a direction of length 1."""
    random = np.random.default_rng(seed)
    half = random.standard_normal((4, 4))
    direction = random.standard_normal(4)
    return (
        Bowl(half + half.T, random.standard_normal(4)),
        random.standard_normal(4),
        direction / np.linalg.norm(direction),
    )


@pytest.mark.parametrize("width", [1e-5, 1e-3, 0.5])
@pytest.mark.parametrize("seed", range(4))
def test_directional_curvature_equals_the_hessian_product(seed: int, width: float) -> None:
    """Of a quadratic at any width, up to rounding over the width."""
    bowl, point, direction = drawn(seed)
    found = curvature_along(bowl, point, direction, width)  # type: ignore[arg-type]
    np.testing.assert_allclose(found, bowl.hessian @ direction, atol=1e-14 / width + 1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_sharpness_is_the_largest_absolute_eigenvalue(seed: int) -> None:
    bowl, point, _ = drawn(seed)
    largest = abs(np.linalg.eigvalsh(bowl.hessian)).max()
    assert sharpness(bowl, point, steps=2000) == pytest.approx(largest, rel=1e-3)  # type: ignore[arg-type]
    assert sharpness(Bowl(np.zeros((4, 4)), np.zeros(4)), point) == 0  # type: ignore[arg-type]


def test_networks_use_the_first_500_digits_and_models_all() -> None:
    pixels, classes = digits()
    network, model = digits_perceptron(), digits_logistic()
    assert (network.inputs == pixels[:500]).all()
    assert (network.classes == classes[:500]).all()
    assert network.dimension == 64 * 16 + 16 + 16 * 10 + 10
    assert model.inputs.shape == (len(pixels), 64 + 1)
    assert model.penalty == 0.01


@pytest.mark.parametrize("noise_std", [300.0, 777.0, 2000.0, 9000.0])
@pytest.mark.parametrize("delay", [0, 1])
def test_the_step_that_noise_allows_is_found_by_sixty_bisections(delay: int, noise_std: float) -> None:
    """The floor at it is below 0.9 of the gap, and 2^-61 further it is not."""
    settings: Any = SimpleNamespace(noise_std=noise_std, noisy_gap=0.25)
    step = delay_iterations._noisy_step(delay, settings)
    assert 0 < step < 1e-4
    assert (step * 2.0**61).is_integer()
    low, high = (floor(at, 1.0, delay, noise_std=noise_std) / 2 for at in (step, step + 2.0**-61))
    assert low < 0.9 * 0.25 <= high


def rosenbrock(x: list[float]) -> float:
    return sum((1 - a) ** 2 + 100 * (b - a * a) ** 2 for a, b in pairwise(x))


WRITTEN: dict[str, Callable[[list[float]], float]] = {
    "rosenbrock": rosenbrock,
    "ripples": lambda x: sum(a * a / 2 + 2 / 9 * (1 - math.cos(3 * a)) for a in x),
    "saddle": lambda x: sum(a * a / 2 for a in x[:-1]) - x[-1] ** 2 / 8,
    "huber": lambda x: sum(a * a / 2 if abs(a) <= 1 else abs(a) - 1 / 2 for a in x),
    "cliff": lambda x: x[0] / 1000 + 1 / (1 + math.exp(-4 * x[0])) + (min(0, x[0] + 2) ** 2) / 2,
}
CURVED = {"rosenbrock": None, "ripples": 3, "saddle": 1, "huber": 1, "cliff": 1 + 16 * math.sqrt(3) / 18}
"""The second derivative of a logistic function is at most sqrt(3) / 18."""


@pytest.mark.parametrize("name", LANDSCAPES)
def test_the_landscape_matches_its_formula_slope_and_largest_curvature(name: str) -> None:
    landscape, random = LANDSCAPES[name], np.random.default_rng(3)
    for scale in (0.3, 1.0, 4.0):
        points = scale * random.standard_normal((40, landscape.dimension))
        losses = [WRITTEN[name](point.tolist()) for point in points]
        np.testing.assert_allclose(landscape.loss(points), losses, rtol=1e-12, atol=1e-12)
        for place in range(landscape.dimension):
            aside = 1e-6 * np.eye(landscape.dimension)[place]
            slope = (landscape.loss(points + aside) - landscape.loss(points - aside)) / 2e-6
            np.testing.assert_allclose(landscape.gradient(points)[:, place], slope, rtol=1e-5, atol=1e-5)
    expected = CURVED[name]
    assert landscape.smoothness == (None if expected is None else pytest.approx(expected, rel=1e-6))


def test_the_noise_of_a_run_is_added_to_its_gradients() -> None:
    """The run again with the draws of its seed."""
    settings: Any = SimpleNamespace(trials=6, steps=30)
    objective = Quadratic(np.array([1.0, 0.3]), np.zeros(2))
    draws = SignNoise.of(16**-0.5, (6, 2), np.random.default_rng([5, 7]))
    x, visited = np.full((6, 2), 2.0), []
    for _ in range(30):
        visited.append(x)
        x = x - 0.1 * (x * np.array([1.0, 0.3]) + draws.draw())
    mean = np.mean(visited, axis=0)
    gaps = (np.array([1.0, 0.3]) * mean**2 / 2).sum(-1)
    found, error = sgd_bound._averaged_gap(objective, 2.0, 0.1, 16, settings, np.random.default_rng([5, 7]))
    assert found == pytest.approx(gaps.mean())
    assert error == pytest.approx(gaps.std(ddof=1) / math.sqrt(6))


def test_gradient_descent_contracts_a_quadratic_by_one_minus_the_step_squared() -> None:
    answer = find_experiment("compression-stability").answer(given("compression-stability"))
    checks = (*answer.checks, *answer.left_out)
    named = {one.what.rpartition(" a = ")[2]: one for one in checks if one.what.startswith("same rate as plain")}
    assert set(named) == {"0.1", "0.5"}
    for step, one in named.items():
        assert one.expected == pytest.approx((1 - float(step)) ** 2)
        assert one.false_law
