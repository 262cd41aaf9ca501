"""Curvatures by differences of gradients: a Hessian that is known, its sign, and the size of its largest eigenvalue."""

from __future__ import annotations

import numpy as np
import pytest

from lockstep.converge.objectives.objective import curvature_along, sharpness


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
def test_the_curvature_along_a_direction_is_the_hessian_times_it(seed: int, width: float) -> None:
    """Of a quadratic at any width, up to rounding over the width."""
    bowl, point, direction = drawn(seed)
    found = curvature_along(bowl, point, direction, width)  # type: ignore[arg-type]
    np.testing.assert_allclose(found, bowl.hessian @ direction, atol=1e-14 / width + 1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_sharpness_is_the_size_of_the_largest_eigenvalue_of_either_sign(seed: int) -> None:
    bowl, point, _ = drawn(seed)
    largest = abs(np.linalg.eigvalsh(bowl.hessian)).max()
    assert sharpness(bowl, point, steps=2000) == pytest.approx(largest, rel=1e-3)  # type: ignore[arg-type]
    assert sharpness(Bowl(np.zeros((4, 4)), np.zeros(4)), point) == 0  # type: ignore[arg-type]
