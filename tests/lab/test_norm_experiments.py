"""Optimisers from norms: golden solutions, edges, and what the experiments must notice."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

import lockstep
from effort import share
from lockstep.base.errors import BadInput
from lockstep.learn.lab.experiments.optimizers import implicit_bias, implicit_bias_epochs, norm_steps
from lockstep.learn.lab.objectives.quadratic import least_norm_solution

A = np.array([1.0, 0.1, 0.01])


def test_solutions_of_the_single_equation_match_golden_values() -> None:
    rows = {row["method"]: row for row in lockstep.converge("implicit-bias").to_dict()["rows"]}
    assert rows["SGD"]["theta"] == pytest.approx(np.array([10000, 1000, 100]) / 10101, rel=1e-9)
    assert rows["momentum 0.9"]["theta"] == pytest.approx(np.array([10000, 1000, 100]) / 10101, rel=1e-9)
    assert rows["simplified Adam"]["theta"] == pytest.approx([100 / 111] * 3, rel=1e-6)
    assert rows["rescaled features"]["theta"] == pytest.approx([1 / 3, 10 / 3, 100 / 3], rel=1e-9)
    assert rows["power 0.5"]["theta"] == pytest.approx([0.96841, 0.30624, 0.09684], abs=5e-6)
    assert rows["power 1.5"]["theta"] == pytest.approx([0.706101, 2.232888, 7.061011], abs=1e-6)
    assert rows["SGD"]["stable_below"] == pytest.approx(0.990001, abs=1e-6)
    assert rows["rescaled features"]["stable_below"] == pytest.approx(1 / 3)


@pytest.mark.parametrize(("rate", "diverges"), [(0.98, False), (0.9901, True)])
def test_sgd_diverges_beyond_its_stability_limit(rate: float, diverges: bool) -> None:
    """0.980 and 1.0002 times the residual in every step: 1e-26 and a million times as much at the end."""
    path = implicit_bias._scaled(A, 1.0, 0.0, rate, 90_000 if diverges else 3000)
    assert path.diverged is diverges
    assert diverges or abs(path.residual[-1]) < 1e-9


@pytest.mark.parametrize("features", ["2,1", "1,1,1,1", "5,0.3,0.001"])
@pytest.mark.parametrize("target", ["1", "-3", "0.01"])
def test_limits_hold_for_other_equations(features: str, target: str) -> None:
    if target.startswith("-"):
        with pytest.raises(BadInput, match="target"):
            lockstep.converge("implicit-bias", {"features": features, "target": target})
    else:
        given = {"features": features, "target": target, "momentum": 0.5}
        assert lockstep.converge("implicit-bias", given).agrees


@given(st.integers(0, 10_000))
def test_the_minimum_norm_solution_has_the_smallest_norm(seed: int) -> None:
    """Any other solution is longer in the same norm."""
    rng = np.random.default_rng(seed)
    x, y, scale, start = rng.normal(size=(2, 5)), rng.normal(size=2), rng.uniform(0.1, 3, 5), rng.normal(size=5)
    found = least_norm_solution(x, y, scale, start)
    assert x @ found == pytest.approx(y)
    other = found + np.linalg.svd(x)[2][2:].T @ rng.normal(size=3)
    assert ((found - start) ** 2 / scale).sum() <= ((other - start) ** 2 / scale).sum() * (1 + 1e-9)
    plain = least_norm_solution(x, y, np.ones(5))
    assert plain == pytest.approx(np.linalg.lstsq(x, y, rcond=None)[0])


@pytest.mark.parametrize("seed", range(3))
def test_the_minimum_maximum_norm_matches_a_linear_programme(seed: int) -> None:
    x, y = implicit_bias_epochs._equations(2, 5, seed)
    bound = np.hstack([np.eye(5), -np.ones((5, 1))]), np.hstack([-np.eye(5), -np.ones((5, 1))])
    solved = linprog(
        [0] * 5 + [1], A_ub=np.vstack(bound), b_ub=np.zeros(10), A_eq=np.hstack([x, np.zeros((2, 1))]), b_eq=y,
        bounds=[(None, None)] * 6,
    )  # fmt: skip
    found = implicit_bias_epochs.least_maximum(x, y)
    assert x @ found == pytest.approx(y)
    assert np.abs(found).max() == pytest.approx(solved.fun, rel=2e-3)


@pytest.mark.parametrize("seed", share(range(1, 6), 2))
def test_epochs_agree_for_other_equations(seed: int) -> None:
    settings = {"equations": 1 + seed, "unknowns": 4 + 3 * seed, "epochs": 8000}
    assert lockstep.converge("implicit-bias-epochs", settings, seed=seed).agrees


@pytest.mark.parametrize("gradient", ["1", "0,0,2", "1,1", "3,-4,1,7,2"])
def test_steps_agree_for_other_gradients(gradient: str) -> None:
    assert lockstep.converge("norm-steps", {"gradient": gradient, "alpha": 1.7}).agrees


def test_the_norms_plot_shows_the_dual_norm_dashed_and_descent_as_points() -> None:
    """|u|_p has the dual |g|_q with 1/p + 1/q = 1; l1 the largest entry, linf the sum."""
    g, alpha, found = np.array([3.0, -4.0, 1.0]), 0.5, [-2.0, -2.5, -3.0, -4.0, -5.0, -6.0]
    between, l1, linf, points = norm_steps._curves(g, alpha, found)
    q = between.x / (between.x - 1)
    duals = [float((np.abs(g) ** one).sum() ** (1 / one)) for one in q]
    assert between.y == pytest.approx(-alpha / 4 * np.square(duals))
    assert (between.x[0], between.x[-1]) == pytest.approx((1.05, 50.0))
    for line, dual in ((l1, 4.0), (linf, 8.0)):
        assert line.y == pytest.approx([-alpha / 4 * dual**2] * 2)
        assert list(line.x) == [between.x[0], between.x[-1]]
    assert points.x.tolist() == [1.25, 1.5, 2, 3, 4, 6]
    assert points.y.tolist() == found
    assert [one.theory for one in (between, l1, linf, points)] == [True, True, True, False]
    assert [one.marks for one in (between, l1, linf, points)] == [False, False, False, True]


def test_an_incorrect_step_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(norm_steps, "least_value", lambda norm, g, alpha: -alpha / 2 * norm.dual(g) ** 2)
    found = lockstep.converge("norm-steps")
    assert not found.agrees
    assert "least value" in found.verdict


def test_an_incorrect_limit_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(implicit_bias, "nearest", lambda a, y, scale, start=0.0: np.full(a.size, y / a.sum()) + start)
    assert not lockstep.converge("implicit-bias", {"momentum": 0.5, "steps": 1000}).agrees


@pytest.mark.parametrize(
    ("experiment", "settings", "said"),
    [
        ("implicit-bias", {"features": "1"}, "at least 2 coefficients"),
        ("implicit-bias", {"features": "1,-1"}, "from 0.001"),
        ("implicit-bias-epochs", {"equations": 5, "unknowns": 5}, "at least twice the equations"),
        ("norm-steps", {"gradient": "0,0"}, "one of them not 0"),
        ("norm-steps", {"matrix": "1,2,3"}, "needs 4 numbers"),
        ("norm-steps", {"alpha": 0}, "from 1e-06"),
    ],
)
def test_invalid_settings_are_refused(experiment: str, settings: dict[str, object], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        lockstep.converge(experiment, settings)


def test_settings_are_frozen_and_recorded_in_the_findings() -> None:
    assert replace(norm_steps.Settings(), alpha=2.0).alpha == 2.0
    assert lockstep.converge("norm-steps", {"alpha": 2}).to_dict()["settings"]["alpha"] == 2.0
