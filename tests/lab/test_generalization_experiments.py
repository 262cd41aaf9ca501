"""Coupled runs and steps against examples on a network: other settings, an oracle, and what must be noticed."""

from __future__ import annotations

import numpy as np
import pytest

import lockstep
from lockstep.base.errors import BadInput
from lockstep.learn.lab.experiments.batch import algorithmic_stability, critical_batch_digits
from lockstep.learn.lab.objectives import Logistic, Objective, digits_logistic, digits_perceptron

FEW = {"batches": (1, 4, 16, 64), "examples": 256, "hidden": 16, "starts": 2}


@pytest.mark.parametrize("network", [digits_perceptron(5, 60), digits_logistic(side=2)])
def test_a_data_set_for_each_trial_is_each_of_them_alone(network: Logistic) -> None:
    generator = np.random.default_rng(0)
    places = generator.integers(0, 60, (3, 7))
    parameters = generator.standard_normal((3, network.dimension))
    together = network.part(places)
    for trial in range(3):
        alone: Objective = network.part(places[trial])
        assert together.loss(parameters)[trial] == pytest.approx(float(alone.loss(parameters[trial])), rel=1e-14)
        assert together.gradient(parameters)[trial] == pytest.approx(alone.gradient(parameters[trial]), abs=1e-15)


@pytest.mark.parametrize("mu", [0.0, 0.2])
def test_the_bound_is_the_recursion_of_the_worst_case(mu: float) -> None:
    """Every step shrinks the distance by 1 - a mu and adds 2 a G with the chance 1 / N that the example is drawn."""
    distance, steepest, examples, rate = 0.0, 1.5, 40, 0.3
    for step in range(1, 60):
        distance = (1 - rate * mu) * distance + 2 * rate * steepest / examples
        assert algorithmic_stability.bound(steepest, examples, rate, step, mu) == pytest.approx(distance, rel=1e-12)


def test_one_pair_of_runs_by_hand() -> None:
    """Whole batch of two, pulls 1 and 3; the other run has -1 for 1: means 2 and 1, so they part by one rate a step."""
    pulls = np.array([1.0, 3.0, -1.0])

    def gradient(parameters: np.ndarray, places: np.ndarray) -> np.ndarray:
        return np.zeros_like(parameters) + pulls[places].mean(axis=1, keepdims=True)

    pair = algorithmic_stability._coupled(gradient, np.zeros((1, 1)), 0.5, 2, 2, 3, np.random.default_rng(0))
    assert pair.distance.tolist() == [[0.5, 1.0, 1.5]]
    assert (pair.first.item(), pair.second.item()) == (-3.0, -1.5)


@pytest.mark.parametrize("settings", [{"examples": 20, "batches": 5}, {"penalty": 0.5, "workers": 2}])
def test_stability_holds_for_other_settings(settings: dict[str, object]) -> None:
    found = lockstep.converge("algorithmic-stability", settings | {"trials": 100, "steps": 100}, seed=5)
    assert found.agrees, found.verdict


def test_a_bound_that_is_too_small_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = algorithmic_stability.bound
    monkeypatch.setattr(algorithmic_stability, "bound", lambda *words: 0.5 * exact(*words))
    assert not lockstep.converge("algorithmic-stability", {"trials": 100, "steps": 100}).agrees


def test_steps_against_examples_on_other_networks() -> None:
    found = lockstep.converge("critical-batch-digits", FEW | {"target": 0.6}, seed=3)
    assert found.agrees, found.verdict
    rows = {row["batch"]: row for row in found.rows}
    assert rows[1]["steps"] > rows[64]["steps"] > rows[256]["steps"]
    assert rows[1]["examples"] < rows[64]["examples"] < rows[256]["examples"]


def test_a_target_of_few_steps_raises_no_false_alarm() -> None:
    """At a loss that all examples reach in a few steps the laws of a whole run say nothing."""
    found = lockstep.converge("critical-batch-digits", {"target": 1.5})
    assert found.agrees, found.verdict
    assert found.rows[-1]["steps"] < critical_batch_digits.LEAST_STEPS
    assert not any("hyperbola" in check["check"] for check in found.to_dict()["checks"])


def test_a_noise_scale_without_the_batch_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = critical_batch_digits._noise_scale
    monkeypatch.setattr(critical_batch_digits, "_noise_scale", lambda *words: 30 * exact(*words))
    assert not lockstep.converge("critical-batch-digits", FEW).agrees


def test_noise_of_the_gradient_is_the_trace_of_its_covariance() -> None:
    network = digits_perceptron(2, 40)
    weights = network.start(0)
    noise, square = critical_batch_digits._noise_and_square(network, weights)
    single = np.array([network.part(np.array([one])).gradient(weights) for one in range(40)])
    assert noise == pytest.approx(np.trace(np.cov(single.T, bias=True)))
    assert square == pytest.approx((network.gradient(weights) ** 2).sum())


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        ("algorithmic-stability", {"examples": 20, "batches": 21}, "at most the 20 examples"),
        ("critical-batch-digits", {"batches": (1, 2, 4)}, "at least 4"),
        ("critical-batch-digits", {"batches": (1, 2, 4, 300)}, "at most 256"),
    ],
)
def test_invalid_settings_are_refused(name: str, settings: dict[str, object], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        lockstep.converge(name, settings)


def test_a_target_out_of_reach_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(critical_batch_digits, "MOST_STEPS", 3)
    with pytest.raises(BadInput, match="is not reached within 3 steps"):
        lockstep.converge("critical-batch-digits", FEW)
