"""Many workers, accumulation, large batches and generalisation: closed forms, edges, and what must be noticed."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import lockstep
from lockstep.base.errors import BadInput
from lockstep.learn.lab.experiments.batch import data_parallel, generalization_gap, gradient_variance, large_batch
from lockstep.learn.lab.objectives import digits_perceptron
from lockstep.learn.methods.optimizers import optimizer, step


@pytest.mark.parametrize(("workers", "batch"), [(2, 16), (4, 64), (16, 32)])
def test_shards_are_the_whole_for_any_split(workers: int, batch: int) -> None:
    found = lockstep.converge("data-parallel", {"workers": workers, "batch": batch, "steps": 20}, seed=workers)
    assert found.agrees, found.verdict


@pytest.mark.parametrize("name", ["sgd", "momentum", "adam", "lars", "lamb", "sign"])
@pytest.mark.parametrize("micro_batches", [2, 3, 8])
def test_accumulation_is_the_large_batch_bit_for_bit(name: str, micro_batches: int) -> None:
    """Whole numbers, so that no sum rounds in any order: then the whole optimiser sees the same bits."""
    rng = np.random.default_rng(micro_batches)
    x, y, w = rng.integers(-4, 5, (24, 6)).astype(float), rng.integers(-9, 10, 24).astype(float), np.ones(6)
    method = optimizer(name)
    for _ in range(3):
        whole = (x @ w - y) @ x
        parts = [(x[one] @ w - y[one]) @ x[one] for one in np.split(rng.permutation(24), micro_batches)]
        total = np.zeros(6)
        for part in parts:
            total += part
        assert np.array_equal(total, whole)
        one, other = (step(method, (w,), (g / 24,), method.start((w,)), 0.5)[0][0] for g in (whole, total))
        assert np.array_equal(one, other)
        w = np.round(one)


def test_the_mean_of_shards_is_not_their_sum() -> None:
    network = digits_perceptron(8)
    ways = {way.name: way for way in data_parallel._ways(network, 4)}
    w, batch = network.start(0), np.arange(32)
    summed = ways["summed gradients"].parts(w, batch)
    assert summed == pytest.approx(4 * ways["equal shards"].parts(w, batch))
    assert ways["equal shards"].parts(w, batch) == pytest.approx(network.part(batch).gradient(w), abs=1e-15)


def test_gradient_variances_match_golden_values() -> None:
    """(10, 1000): 0.02525 unweighted, 0.00099010 weighted; (16, 48): 0.0208333 and 0.015625; factor 50/99."""
    for small, large, plain, weighted in ((10, 1000, 0.02525, 0.00099010), (16, 48, 0.0208333, 0.015625)):
        checks = {c.what: c for c in lockstep.converge("gradient-variance", {"small": small, "large": large}).checks}
        assert checks["unequal workers, unweighted mean: variance"].expected == pytest.approx(plain, rel=1e-5)
        assert checks["unequal workers, weighted mean: variance"].expected == pytest.approx(weighted, rel=1e-5)
    assert gradient_variance._finite(np.zeros(100), 50) == pytest.approx(0.5051, abs=5e-5)


def test_variance_does_not_depend_on_the_workers() -> None:
    data = np.arange(64.0)
    laws = [gradient_variance._law(data, 16, n, "with replacement") for n in (1, 2, 4, 8)]
    assert laws == pytest.approx([data.var() / 16] * 4)
    shards = [gradient_variance._law(data, 16, n, "sorted shards") for n in (1, 2, 4, 8)]
    assert all(later < earlier for earlier, later in pairwise(shards))


@pytest.mark.parametrize("seed", range(1, 5))
def test_other_seeds_agree(seed: int) -> None:
    assert lockstep.converge("gradient-variance", {"trials": 1000}, seed=seed).agrees


def test_generalisation_gaps_match_golden_values() -> None:
    """Converged gaps of about 0.76, 0.29, 0.13 and 0.065 for d = 50 and N = 100 ... 800."""
    found = [generalization_gap.fitted_gap(50, n) for n in (100, 200, 400, 800)]
    assert found == pytest.approx([0.7602, 0.2928, 0.1341, 0.0646], abs=1e-4)


def test_gap_of_a_small_problem_and_another_seed() -> None:
    settings = {"dimension": 10, "examples": "30,60", "batches": "4,10", "trials": 200}
    for seed in (0, 1):
        assert lockstep.converge("generalization-gap", settings, seed=seed).agrees


def test_failed_recipes_are_reported_without_a_loss() -> None:
    found = lockstep.converge("large-batch", {"epochs": 10, "hidden": 16, "repetitions": 2})
    assert found.agrees, found.verdict
    rows = {(row["recipe"], row["batch"]): row for row in found.rows}
    assert rows["linear rule", 1280]["loss"] is None
    assert rows["linear rule", 128]["loss"] < rows["no scaling", 128]["loss"]
    assert rows["LARS", 1280]["loss"] < large_batch.UNTRAINED
    ended = {curve.label: curve.diverged_at for curve in found.curves}
    assert ended["linear rule"] == 320
    assert ended["no scaling"] is None


def test_a_wrong_gap_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generalization_gap, "fitted_gap", lambda d, n: d / n / 2)
    settings = {"dimension": 10, "examples": "30", "batches": "10", "trials": 200}
    assert not lockstep.converge("generalization-gap", settings).agrees


def test_a_wrong_mean_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gradient_variance, "_finite", lambda data, batch: 1.0)
    assert not lockstep.converge("gradient-variance", {"batch": 512}).agrees


@pytest.mark.parametrize(
    ("experiment", "settings", "said"),
    [
        ("data-parallel", {"batch": 30, "workers": 4}, "multiple of the 4 workers"),
        ("gradient-variance", {"batch": 2000}, "at most the 1024 examples"),
        ("gradient-variance", {"workers": 3}, "must divide"),
        ("gradient-variance", {"small": 50, "large": 50}, "above small"),
        ("gradient-variance", {"trials": 90_000}, "trials x examples"),
        ("generalization-gap", {"examples": 40}, "above dimension"),
        ("generalization-gap", {"batches": 500}, "at most the 100 examples"),
        ("generalization-gap", {"trials": 2000, "dimension": 200, "examples": 400}, "trials x examples x dimension"),
        ("large-batch", {"epochs": 1}, "from 10 to 30"),
    ],
)
def test_invalid_settings_are_refused(experiment: str, settings: dict[str, object], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        lockstep.converge(experiment, settings)


def test_a_recipe_worse_than_no_training_has_no_loss() -> None:
    """Student's t with two runs is 12.7062 at 97.5 %; the interval does not go below 0."""
    from lockstep.learn.lab.experiments.batch.large_batch import Recipe, Trained, _row
    from lockstep.learn.methods.optimizers import Sgd

    recipe = Recipe("plain", Sgd(), 32, 0.1)
    good = _row(Trained(recipe, np.array([1.0, 1.1]), np.array([1.2, 1.4]), np.array([0.5, 0.7])))
    half = 12.7062 * 0.05
    assert good["loss"] == pytest.approx(1.05)
    assert good["ci95"] == pytest.approx([1.05 - half, 1.05 + half], rel=1e-4)
    assert (good["test_loss"], good["accuracy_frac"]) == pytest.approx((1.3, 0.6))
    assert (good["recipe"], good["batch"], good["rate"]) == ("plain", 32, 0.1)
    wide = _row(Trained(recipe, np.array([0.1, 1.1]), np.array([1.0, 1.0]), np.array([0.5, 0.5])))
    assert wide["ci95"][0] == 0.0
    for losses in ([2.3, 2.4], [1.0, np.nan]):
        bad = _row(Trained(recipe, np.array(losses), np.array([1.0, 1.0]), np.array([0.1, 0.1])))
        assert [bad[name] for name in ("loss", "ci95", "test_loss")] == [None] * 3
        assert bad["accuracy_frac"] == pytest.approx(0.1)
