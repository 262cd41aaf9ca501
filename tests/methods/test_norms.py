"""Steps of norms: a convex solver finds the same, the named methods come out, duality holds, torch agrees."""

from __future__ import annotations

from typing import Any

import cvxpy
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.base.errors import BadInput
from lockstep.learn.methods.norms import (
    Absolute,
    Blocks,
    Euclidean,
    Maximum,
    Norm,
    Power,
    Spectral,
    least_value,
    steepest_step,
)
from optional import torch

VECTOR_NORMS: list[tuple[Norm, Any]] = [
    (Euclidean(), 2),
    (Maximum(), "inf"),
    (Absolute(), 1),
    (Power(1.5), 1.5),
    (Power(3.0), 3),
    (Power(4.0), 4),
]
NAMES = [f"{norm.name}-{order}" for norm, order in VECTOR_NORMS]
G = np.array([3.0, -4.0, 1.0])


def solved(gradient: np.ndarray, alpha: float, length: Any) -> tuple[np.ndarray, float]:
    """(u, value) of the convex programme by an interior-point solver."""
    u = cvxpy.Variable(gradient.shape)
    problem = cvxpy.Problem(cvxpy.Minimize(cvxpy.sum(cvxpy.multiply(gradient, u)) + length(u) ** 2 / alpha))
    problem.solve(solver=cvxpy.CLARABEL)
    return np.asarray(u.value), float(problem.value)


@pytest.mark.parametrize(("norm", "order"), VECTOR_NORMS, ids=NAMES)
@pytest.mark.parametrize("seed", range(3))
def test_vector_steps_match_a_convex_solver(norm: Norm, order: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    gradient, alpha = rng.normal(size=6), float(rng.uniform(0.1, 2))
    u, value = solved(gradient, alpha, lambda u: cvxpy.norm(u, order))
    assert least_value(norm, gradient, alpha) == pytest.approx(value, rel=1e-6)
    assert steepest_step(norm, gradient, alpha) == pytest.approx(u, abs=2e-3)


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 5)])
def test_spectral_steps_match_a_convex_solver(shape: tuple[int, int]) -> None:
    gradient = np.random.default_rng(1).normal(size=shape)
    u, value = solved(gradient, 0.5, cvxpy.sigma_max)
    assert least_value(Spectral(), gradient, 0.5) == pytest.approx(value, rel=1e-6)
    assert steepest_step(Spectral(), gradient, 0.5) == pytest.approx(u, abs=1e-3)


OUTER = [(Maximum(), cvxpy.norm_inf), (Euclidean(), cvxpy.norm2), (Absolute(), cvxpy.norm1)]


@pytest.mark.parametrize(("outer", "measure"), OUTER, ids=[norm.name for norm, _ in OUTER])
def test_block_steps_match_a_convex_solver(outer: Norm, measure: Any) -> None:
    rng = np.random.default_rng(2)
    gradient = [rng.normal(size=4), rng.normal(size=(2, 3)), rng.normal(size=3)]
    norm = Blocks(outer, (Maximum(), Spectral(), Euclidean()))
    blocks = [cvxpy.Variable(one.shape) for one in gradient]
    lengths = cvxpy.hstack([cvxpy.norm_inf(blocks[0]), cvxpy.sigma_max(blocks[1]), cvxpy.norm2(blocks[2])])
    slope = sum(cvxpy.sum(cvxpy.multiply(g, u)) for g, u in zip(gradient, blocks, strict=True))
    problem = cvxpy.Problem(cvxpy.Minimize(slope + measure(lengths) ** 2 / 0.7))
    problem.solve(solver=cvxpy.CLARABEL)
    step = norm.step(gradient, 0.7)
    value = sum(float((g * u).sum()) for g, u in zip(gradient, step, strict=True)) + norm.length(step) ** 2 / 0.7
    assert value == pytest.approx(problem.value, rel=1e-6)
    assert value == pytest.approx(-0.7 / 4 * norm.dual(gradient) ** 2, rel=1e-12)
    for found, block in zip(step, blocks, strict=True):
        assert found == pytest.approx(block.value, abs=2e-3)


def test_steps_of_the_worked_example() -> None:
    """g = (3, -4, 1), alpha = 1/2."""
    want = {
        Absolute(): ([0, 1, 0], -2.0),
        Power(1.5): ([-0.49841, 0.88606, -0.05538], -2.5474),
        Euclidean(): ([-0.75, 1, -0.25], -3.25),
        Power(3.0): ([-1.04847, 1.21067, -0.60534], -4.2967),
        Power(4.0): ([-1.23207, 1.35606, -0.85427], -4.9874),
        Maximum(): ([-2, 2, -2], -8.0),
    }
    for norm, (step, value) in want.items():
        assert steepest_step(norm, G, 0.5) == pytest.approx(step, abs=6e-6)
        assert least_value(norm, G, 0.5) == pytest.approx(value, abs=6e-5)


@pytest.mark.parametrize("alpha", [0.1, 1.0, 3.0])
def test_the_named_methods_are_steps_of_norms(alpha: float) -> None:
    assert steepest_step(Euclidean(), G, alpha) == pytest.approx(-alpha / 2 * G)
    assert steepest_step(Maximum(), G, alpha) == pytest.approx(-alpha / 2 * np.abs(G).sum() * np.sign(G))
    greedy = steepest_step(Absolute(), G, alpha)
    assert np.flatnonzero(greedy).tolist() == [1]
    assert greedy[1] == pytest.approx(alpha / 2 * 4)


def test_the_p_norm_step_lies_between_its_limits() -> None:
    assert steepest_step(Power(2.0), G, 0.5) == pytest.approx(steepest_step(Euclidean(), G, 0.5))
    assert steepest_step(Power(1000.0), G, 0.5) == pytest.approx(steepest_step(Maximum(), G, 0.5), abs=0.02)
    assert steepest_step(Power(1.001), G, 0.5) == pytest.approx(steepest_step(Absolute(), G, 0.5), abs=0.02)


def test_the_printed_rule_for_l1_is_not_the_minimum() -> None:
    """u_i = -alpha g_i / |g|_inf scores -1.25 where greedy coordinate descent scores -2."""
    printed = -0.5 * G / np.abs(G).max()
    assert float(G @ printed + np.abs(printed).sum() ** 2 / 0.5) == pytest.approx(-1.25)
    assert least_value(Absolute(), G, 0.5) == pytest.approx(-2.0)


def test_spectral_step_drops_the_sizes_and_keeps_the_rank() -> None:
    rng = np.random.default_rng(3)
    left, right = np.linalg.qr(rng.normal(size=(5, 2)))[0], np.linalg.qr(rng.normal(size=(4, 2)))[0]
    gradient = left @ np.diag([7.0, 0.01]) @ right.T
    assert Spectral().steepest(gradient) == pytest.approx(left @ right.T, abs=1e-9)
    assert float(Spectral().dual(gradient)) == pytest.approx(7.01)


def test_blocks_of_euclidean_norms_under_one_are_the_euclidean_norm() -> None:
    whole = np.arange(1.0, 8.0)
    parts = [whole[:3], whole[3:]]
    step = Blocks(Euclidean(), (Euclidean(), Euclidean())).step(parts, 0.4)
    assert np.concatenate(step) == pytest.approx(steepest_step(Euclidean(), whole, 0.4))


@given(seed=st.integers(0, 10_000), size=st.integers(1, 8), place=st.integers(0, len(VECTOR_NORMS) - 1))
def test_dual_norms_satisfy_hoelder(seed: int, size: int, place: int) -> None:
    """|v| = 1, g'v = |g|_*, and no other unit vector does better (Hoelder)."""
    norm, rng = VECTOR_NORMS[place][0], np.random.default_rng(seed)
    gradient, other = rng.normal(size=size), rng.normal(size=size)
    steepest = norm.steepest(gradient)
    assert float(norm.length(steepest)) == pytest.approx(1.0)
    assert float(gradient @ steepest) == pytest.approx(float(norm.dual(gradient)))
    assert float(gradient @ other) <= float(norm.dual(gradient) * norm.length(other)) * (1 + 1e-12)


@pytest.mark.parametrize("norm", [norm for norm, _ in VECTOR_NORMS] + [Spectral()])
def test_torch_gives_the_same_steps(norm: Norm) -> None:
    gradient = np.random.default_rng(4).normal(size=(3, 2))
    found = steepest_step(norm, torch.tensor(gradient), 0.3)
    assert found.numpy() == pytest.approx(steepest_step(norm, gradient, 0.3), abs=1e-12)


@pytest.mark.parametrize("norm", [norm for norm, _ in VECTOR_NORMS] + [Spectral()])
def test_zero_gradients_give_zero_steps(norm: Norm) -> None:
    assert np.array_equal(np.abs(steepest_step(norm, np.zeros((2, 2)), 1.0)), np.zeros((2, 2)))


@pytest.mark.parametrize("scale", [1e-200, 1e150])
def test_extreme_gradients_do_not_overflow_the_p_norm(scale: float) -> None:
    assert Power(8.0).steepest(G * scale) == pytest.approx(Power(8.0).steepest(G))


def test_invalid_norms_are_refused() -> None:
    for p in (1.0, float("inf"), 0.5):
        with pytest.raises(BadInput, match="above 1 and finite"):
            Power(p)
    with pytest.raises(BadInput, match="alpha"):
        steepest_step(Euclidean(), G, 0.0)
    with pytest.raises(BadInput, match="of matrices"):
        Spectral().dual(G)
    with pytest.raises(BadInput, match="one norm per block"):
        Blocks(Maximum(), (Euclidean(),)).dual([G, G])
