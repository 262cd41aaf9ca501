"""Batch size: the noisy quadratic against recursions, the fit's intervals, golden variances, what must be noticed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import lockstep
from lockstep.base.errors import BadInput
from lockstep.learn.lab.experiments.batch import critical_batch, critical_batch_digits, learning_rate_scaling
from lockstep.learn.lab.objectives import digits_perceptron
from lockstep.learn.lab.objectives.quadratic import NoisyQuadratic, power_law
from lockstep.learn.lab.statistics import fit_hyperbola, quotient, ratio_of_means, share_error, variance_and_error
from lockstep.learn.methods.critical_batch import steps as hyperbola

REPETITIONS = 2000


def test_expected_loss_is_the_recursion_of_second_moments() -> None:
    problem, rate, batch = power_law(6, 30.0, 2.0), 0.7, 5.0
    square = problem.start**2
    for count in range(40):
        assert float(problem.expected_loss(float(count), rate, batch)) == pytest.approx(
            0.5 * problem.curvatures @ square
        )
        square = (1 - rate * problem.curvatures) ** 2 * square + rate**2 * problem.noise / batch
    for _ in range(20_000):
        square = (1 - rate * problem.curvatures) ** 2 * square + rate**2 * problem.noise / batch
    assert float(problem.floor(rate, batch)) == pytest.approx(0.5 * problem.curvatures @ square)


def test_squared_norms_are_those_of_the_gradients_of_single_examples() -> None:
    network = digits_perceptron(5, 12)
    weights = np.array([network.start(seed) for seed in (1, 2)])
    found = network.squared_norms(weights)
    assert found.shape == (2, 12)
    for place in range(12):
        single = network.part(np.array([place])).gradient(weights)
        assert found[:, place] == pytest.approx((single**2).sum(axis=1), rel=1e-12)


def test_first_passage_and_best_rate() -> None:
    problem = power_law(4, 10.0, 1.0)
    steps, rate = problem.fewest_steps(0.01, 64.0)
    assert float(problem.expected_loss(steps, rate, 64.0)) == pytest.approx(0.01, rel=1e-6)
    for factor in (0.8, 0.95, 1.05):
        assert problem.steps_to(0.01, np.array([rate * factor]), 64.0)[0] >= steps * (1 - 1e-9)
    floor = float(problem.floor(0.5, 1.0))
    assert problem.steps_to(0.9 * floor, np.array([0.5]), 1.0)[0] == np.inf
    assert float(problem.floor(2.5, 1.0)) == np.inf


def test_one_axis_has_the_textbook_stationary_variance() -> None:
    """1/6 at alpha L = 1/2, L = s = 1: alpha s^2 / (2 B (2 - alpha L)) = 0.16667, 0.020833, 0.0026042."""
    problem = NoisyQuadratic(np.ones(1), np.zeros(1), np.ones(1), np.ones(1))
    assert problem.floor(0.5, np.array([1.0, 8.0, 64.0])) == pytest.approx([1 / 6, 1 / 48, 1 / 384])


def test_noise_scale_batches_range_from_a_sixteenth_to_sixteen_times() -> None:
    """At the noise scale a step gains half of what it could, at B times that B / (1 + B)."""
    found = lockstep.converge("noise-scale", {"axes": 2, "condition": 3, "repetitions": 100})
    scale = next(law.value for law in found.theory if law.name == "noise_scale")
    over = np.array([row["batch"] for row in found.rows]) / scale
    assert over == pytest.approx([1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8, 16])
    assert [row["gain_law_frac"] for row in found.rows] == pytest.approx(over / (1 + over))
    problem = power_law(2, 3.0, 0.0)
    pulled = problem.curvatures * problem.start
    assert scale == pytest.approx(problem.curvatures.sum() / (problem.curvatures * pulled**2).sum())
    theory, simulated = found.curves
    assert theory.y == pytest.approx(1 / (1 + scale / theory.x))
    assert (theory.x[0], theory.x[-1]) == pytest.approx((scale / 16, 16 * scale))
    assert (theory.theory, simulated.theory, simulated.marks) == (True, False, True)
    assert found.picture is not None
    assert (found.picture.log_x, found.picture.log_y) == (True, False)


def test_variances_of_learning_rate_rules_match_golden_values() -> None:
    rows = lockstep.converge("learning-rate-scaling", {"batches": "1,4,16,64", "trials": 1000}).rows
    found = {(row["rule"], row["batch"]): row["variance_law"] for row in rows}
    linear, root = ([found[name, k] for k in (1, 4, 16, 64)] for name in ("linear", "square-root"))
    assert linear == pytest.approx([0.01010, 0.01042, 0.01190, 0.02778], abs=5e-6)
    assert root == pytest.approx([0.01010, 0.00510, 0.00260, 0.00136], abs=5e-6)


def test_a_diverging_run_reports_its_step() -> None:
    found = lockstep.converge("learning-rate-scaling", {"batches": "100,101,400", "trials": 1000})
    steps = [row["diverged_at_step"] for row in found.rows if row["rule"] == "linear"]
    assert steps[1] is None or steps[1] > steps[2]
    assert steps[2] is not None
    factor = abs(1 - 400 * 0.02)
    assert steps[2] == pytest.approx(np.log(learning_rate_scaling.DIVERGED) / (2 * np.log(factor)), abs=2)


def test_fit_finds_an_exact_hyperbola() -> None:
    batch = 2.0 ** np.arange(10)
    fit = fit_hyperbola(batch, hyperbola(batch, 300.0, 45.0))
    assert (fit.least_steps, fit.critical_batch, fit.least_examples) == pytest.approx((300.0, 45.0, 13_500.0))
    assert fit.worst_frac < 1e-9


def test_intervals_of_the_fit_cover_the_truth() -> None:
    """P16: 95 % intervals cover in 93 to 97 % of 2,000 seeded repetitions, at 5 % scatter."""
    rng, batch = np.random.default_rng(0), 2.0 ** np.arange(2, 14)
    covered = np.zeros(2)
    for _ in range(REPETITIONS):
        fit = fit_hyperbola(batch, hyperbola(batch, 300.0, 450.0) * np.exp(0.05 * rng.normal(size=12)))
        covered += [
            fit.least_steps_ci95[0] <= 300 <= fit.least_steps_ci95[1],
            fit.critical_batch_ci95[0] <= 450 <= fit.critical_batch_ci95[1],
        ]
    assert ((covered / REPETITIONS > 0.93) & (covered / REPETITIONS < 0.97)).all()


def test_intervals_of_the_measured_noise_scale_cover_the_truth() -> None:
    """P16, for the ratio of two means from squared norms at two batch sizes."""
    from lockstep.learn.methods.critical_batch import two_batch_estimate

    rng, gradient, noise = np.random.default_rng(1), np.linspace(0.5, 1.5, 8), np.full(8, 2.0)
    truth, covered = noise.sum() / (gradient**2).sum(), 0
    for _ in range(REPETITIONS):
        squared = [
            ((gradient + rng.normal(size=(200, 8)) * np.sqrt(noise / batch)) ** 2).sum(axis=1) for batch in (2, 32)
        ]
        gradient_squared, trace = two_batch_estimate(squared[0], squared[1], 2, 32)
        low, high = ratio_of_means(trace, gradient_squared).interval()
        covered += low <= truth <= high
    assert 0.93 < covered / REPETITIONS < 0.97


def test_the_error_of_a_quotient_of_independent_means_is_its_scatter() -> None:
    rng = np.random.default_rng(3)
    over, under = (rng.normal(mean, error, REPETITIONS) for mean, error in ((-4.0, 0.2), (2.0, 0.05)))
    value, error = quotient((-4.0, 0.2), (2.0, 0.05))
    assert value == -2
    assert error == pytest.approx((over / under).std(), rel=0.07)


def test_errors_of_variances_and_of_shares_are_their_scatter() -> None:
    rng = np.random.default_rng(4)
    drawn = 2 + 3 * rng.normal(size=(REPETITIONS, 200))
    variances = drawn.var(axis=1, ddof=1)
    stated = np.array([variance_and_error(row) for row in drawn])
    assert stated[:, 0] == pytest.approx(variances)
    assert stated[:, 1].mean() == pytest.approx(variances.std(), rel=0.1)
    shares = (rng.random((REPETITIONS, 200)) < 0.3).mean(axis=1)
    assert share_error(0.3, 200) == pytest.approx(shares.std(), rel=0.07)


@pytest.mark.parametrize("seed", range(1, 4))
@pytest.mark.parametrize("name", ["noise-scale", "learning-rate-scaling"])
def test_other_seeds_agree(name: str, seed: int) -> None:
    assert lockstep.converge(name, seed=seed).agrees


@pytest.mark.parametrize(
    "settings", [{"condition": 1000, "noise": 0.01, "axes": 10}, {"noise": 100, "target_frac": 0.1, "condition": 10}]
)
def test_the_hyperbola_holds_on_other_quadratics(settings: dict[str, object]) -> None:
    found = lockstep.converge("critical-batch", settings | {"trials": 100})
    assert found.agrees, found.verdict


def test_an_incorrect_law_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning_rate_scaling, "stationary_variance", lambda rate, _, variance: rate * variance / 2)
    assert not lockstep.converge("learning-rate-scaling").agrees
    exact = NoisyQuadratic.expected_loss
    monkeypatch.setattr(NoisyQuadratic, "expected_loss", lambda self, *words: 1.2 * exact(self, *words))
    assert not lockstep.converge("critical-batch").agrees


def test_noise_moves_the_critical_batch_in_proportion() -> None:
    problem = power_law(8, 20.0, 1.0)
    found = [
        fit_hyperbola(*critical_batch._sweep(replace(problem, noise=factor * problem.noise), 0.01, lambda *_: None)[:2])
        for factor in (1.0, 4.0)
    ]
    assert found[1].critical_batch / found[0].critical_batch == pytest.approx(4.0, rel=0.02)
    assert found[1].least_steps == pytest.approx(found[0].least_steps, rel=0.02)


def test_invalid_fits_are_refused() -> None:
    with pytest.raises(BadInput, match="at least 3 points"):
        fit_hyperbola(np.ones(2), np.ones(2))
    with pytest.raises(BadInput, match="finite"):
        fit_hyperbola(np.arange(1.0, 5), np.array([1.0, 2, np.inf, 3]))
    with pytest.raises(BadInput, match="above small_batch"):
        lockstep.converge("noise-scale", {"small_batch": 8, "large_batch": 8})
    with pytest.raises(BadInput, match="condition"):
        lockstep.converge("critical-batch", {"condition": 2})


def test_curves_of_the_rules_follow_the_stationary_variance_up_to_divergence() -> None:
    """Rates alpha, alpha sqrt(k) and alpha k with the noise of a mean of k; rows that did not diverge are points."""
    settings = learning_rate_scaling.Settings(rate=0.1, curvature=2.0, noise=3.0, batches=(1.0, 4.0, 16.0))
    rows = [
        {"rule": name, "batch": batch, "variance": 7.0, "diverged_at_step": None if batch < 16 else 3}
        for name in ("linear", "square-root", "none")
        for batch in (1.0, 4.0, 16.0)
    ]
    curves = learning_rate_scaling._curves(settings, rows, 10.0)
    power = {"linear": 1.0, "square-root": 0.5, "none": 0.0}
    assert {one.label for one in curves if one.theory} == {f"{name} rule" for name in power}
    for name, law, points in zip(power, curves[::2], curves[1::2], strict=True):
        rate = 0.1 * law.x ** power[name]
        assert law.y == pytest.approx(rate * 9 / law.x / (2 * (2 - rate * 2)))
        assert law.diverged_at == (10.0 if name == "linear" else None)
        assert law.x[0] == 1.0
        assert law.x[-1] == pytest.approx(16.0) if name != "linear" else law.x[-1] < 10.0
        assert points.x.tolist() == [1.0, 4.0]
        assert points.y.tolist() == [7.0, 7.0]
        assert points.marks
        assert not points.theory


def test_the_critical_batch_plot_marks_twice_the_minimum_of_steps_and_examples() -> None:
    batch = np.array([2.0, 8.0, 32.0, 128.0])
    found = hyperbola(batch, 100.0, 16.0)
    line, points, middle = critical_batch._curves(batch, found, fit_hyperbola(batch, found))
    fine = line.x / line.y
    assert (fine[0], fine[-1]) == pytest.approx((2.0, 128.0))
    assert line.y == pytest.approx(100 * (1 + 16 / fine))
    assert (points.x, points.y) == (pytest.approx(batch * found), pytest.approx(found))
    assert (middle.x[0], middle.y[0]) == pytest.approx((2 * 1600, 200))
    assert [one.theory for one in (line, points, middle)] == [True, False, False]
    assert [one.marks for one in (line, points, middle)] == [False, True, True]


def test_an_unreachable_target_is_abandoned_after_20_000_steps() -> None:
    class Still:
        """A network that does not learn."""

        inputs, steps = np.zeros((4, 1)), 0

        def loss(self, weights: np.ndarray) -> np.ndarray:
            return np.ones(len(weights))

        def gradient(self, weights: np.ndarray) -> np.ndarray:
            self.steps += 1
            return np.zeros_like(weights)

    network: Any = Still()
    with pytest.raises(BadInput, match="not reached within 20,000 steps at batch size 4"):
        critical_batch_digits._arrivals(network, np.zeros((2, 3)), 4, np.array([0.1]), 0.5, np.random.default_rng(0))
    assert network.steps == 20_000
