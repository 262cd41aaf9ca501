"""Precision and determinism in the lab: agreement over seeds, formats and ranks, golden values, edges."""

import math
from functools import cache

import numpy as np
import pytest

import lockstep
from effort import share
from lockstep.base.errors import BadInput
from lockstep.learn.lab import Findings
from lockstep.learn.lab.experiments.determinism import trajectory_divergence
from lockstep.learn.lab.experiments.precision import loss_scaling, overflow
from lockstep.learn.lab.laws import tree_of
from lockstep.learn.lab.statistics import streams
from lockstep.learn.methods.loss_scaling import static
from lockstep.learn.methods.number_format import number_format
from lockstep.simulate.collectives import algorithms, get

QUICK: dict[str, dict[str, object]] = {
    "gradient-range": {"gradients": 20_000},
    "loss-scaling": {},
    "master-weights": {"steps": 300},
    "overflow": {"ranks": 4},
    "reduction-orders": {"elems": 512},
    "summation-error": {"terms": "10,300", "orders": 8},
    "trajectory-divergence": {"steps": 120, "ranks": "2,3", "step_size": 4.0},
}


@cache
def answer(name: str, seed: int) -> Findings:
    """Each is run once."""
    return lockstep.converge(name, QUICK[name], seed=seed)


SEEDED = [(name, seed) for place, name in enumerate(QUICK) for seed in (1, *share(range(2, 5), 3, place))]


@pytest.mark.parametrize(("name", "seed"), SEEDED)
def test_laws_hold_for_other_seeds(name: str, seed: int) -> None:
    found = answer(name, seed)
    assert found.agrees, found.verdict


@pytest.mark.parametrize("name", QUICK)
def test_equal_seeds_give_identical_answers(name: str) -> None:
    assert lockstep.converge(name, QUICK[name], seed=1).to_dict() == answer(name, 1).to_dict()


@pytest.mark.parametrize("law", ["normal", "log-normal"])
@pytest.mark.parametrize("name", ["bf16", "fp8-e5m2", "fp8-e4m3"])
def test_ranges_hold_for_every_format_and_law(name: str, law: str) -> None:
    given = {"format": name, "law": law, "gradients": 5000, "size": 1e-3}
    assert lockstep.converge("gradient-range", given).agrees


def test_fp16_shares_match_golden_values() -> None:
    rows = {row["loss_scale"]: row for row in lockstep.converge("gradient-range").to_dict()["rows"]}
    assert rows[1.0]["subnormal_frac"] == pytest.approx(0.457, abs=0.005)
    assert rows[1.0]["zero_frac"] == pytest.approx(0.00026, abs=0.0001)
    assert rows[2.0**24]["overflow_frac"] == 0
    assert rows[2.0**28]["overflow_frac"] == pytest.approx(0.015, abs=0.001)


@pytest.mark.parametrize("name", ["tf32", "fp16", "fp8-e5m2", "fp8-e4m3"])
@pytest.mark.parametrize("step_size", [0.02, 0.3])
def test_weights_stall_in_every_format(name: str, step_size: float) -> None:
    found = lockstep.converge("master-weights", {"format": name, "step_size": step_size, "steps": 2000})
    assert found.agrees, found.verdict


@pytest.mark.parametrize("power", [0, 10, 40])
def test_too_small_and_too_large_static_scales_lose_gradients(power: int) -> None:
    found = lockstep.converge("loss-scaling", {"static_power": power, "steps": 300})
    assert found.agrees, found.verdict


def test_a_run_whose_scale_is_too_large_never_moves() -> None:
    settings = loss_scaling.Settings(steps=100)
    stuck = loss_scaling._trained(number_format("fp16"), static(2.0**60), settings)
    assert stuck.skipped == 100
    assert (stuck.losses == 1).all()


@pytest.mark.parametrize("algorithm", ["ring", "naive", "hierarchical"])
@pytest.mark.parametrize("ranks", [33, 61, 64])
def test_rounding_of_many_sums_is_not_reported_as_overflow(ranks: int, algorithm: str) -> None:
    settings = overflow.Settings(ranks=ranks, algorithm=algorithm)
    assert overflow._row("divide by n first", "sum too large", settings)["step"] == "right"


@pytest.mark.parametrize("given", [{"convex_step_size": 1.0}, {"steps": 1000}])
def test_a_run_that_forgot_its_start_agrees_up_to_rounding(given: dict[str, object]) -> None:
    found = lockstep.converge("trajectory-divergence", {"ranks": (2,), "hidden": 4, **given})
    assert found.agrees, found.verdict


def test_fp16_sums_match_golden_values() -> None:
    assert float(overflow._one_by_one(np.full(6, 1e4))) == 59_968
    assert math.isinf(float(overflow._one_by_one(np.full(7, 1e4))))
    assert overflow._largest_safe(64) == 1023.5
    answer = str(lockstep.converge("overflow", {"ranks": 3}).to_dict())
    assert "inf," not in answer
    assert "nan" not in answer


@pytest.mark.parametrize("ranks", [2, 5, *share([16], 2, 1)])
def test_reduction_orders_hold_for_other_ranks(ranks: int) -> None:
    found = lockstep.converge("reduction-orders", {"ranks": ranks, "elems": 512, "format": "bf16"})
    assert found.agrees, found.verdict


def test_depths_of_known_reduction_trees_are_exact() -> None:
    """A ring adds one after the other, recursive doubling in pairs; the same tree has the same signature."""

    def tree(name: str, ranks: int) -> object:
        return tree_of(get("all-reduce", name).program(ranks, ranks * 4.0, element_B=4.0), ranks, ranks)

    for ranks in (2, 4, 8, 16):
        ring, doubling = tree("ring", ranks), tree("recursive-doubling", ranks)
        assert (ring.depth == ranks - 1).all()
        assert (doubling.depth == math.log2(ranks)).all()
    assert (tree("ring", 2).signature == tree("recursive-doubling", 2).signature).all()
    assert (tree("ring", 8).signature != tree("recursive-doubling", 8).signature).all()
    assert len(np.unique(tree("full-exchange", 4).signature[:, 0])) == 4
    for name in algorithms("all-reduce"):
        assert (tree(name, 4).depth >= 2).all()


def test_gradients_of_the_network_are_those_of_its_loss() -> None:
    problem = trajectory_divergence._problem("network", "fp64", trajectory_divergence.Settings(hidden=3), seed=0)

    def loss(weights: np.ndarray) -> float:
        first, last = weights[:-3].reshape(-1, 3), weights[-3:]
        output = np.tanh(np.tanh(problem.inputs @ first) @ last)
        return float(((output - problem.labels) ** 2).mean() / 2)

    exact = problem.gradient(problem.start, slice(None))
    for i in range(len(exact)):
        step = 1e-6 * np.eye(len(exact))[i]
        slope = (loss(problem.start + step) - loss(problem.start - step)) / 2e-6
        assert exact[i] == pytest.approx(slope, abs=1e-8)


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        ("gradient-range", {"format": "fp17"}, "did you mean fp1"),
        ("overflow", {"ranks": 1}, "from 2 to 64"),
        ("reduction-orders", {"format": "fp8"}, "fp32"),
        ("loss-scaling", {"curvature": 0.0}, "above 0"),
        ("summation-error", {"terms": "1"}, "from 2 "),
    ],
)
def test_refusals_of_settings_state_what_is_allowed(name: str, settings: dict[str, object], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        lockstep.converge(name, settings)


@pytest.mark.parametrize("curvature", [1.0, 0.3, 1e-3, 2.0**-20])
def test_a_scale_fits_while_the_gradient_rounds_below_infinity(curvature: float) -> None:
    """fp16 overflows from 65520 on; every doubling beyond costs the start one step."""
    from lockstep.learn.lab.experiments.precision import loss_scaling

    power = max(p for p in range(60) if curvature * 2.0**p < 65520)
    settings = loss_scaling.Settings(curvature=curvature, steps=200, start_power=power + 3, interval=50)
    assert loss_scaling._fitting_power(settings) == power
    good = 200 - 3 - 200 // 50
    assert loss_scaling._left_after(settings) == pytest.approx(0.9 ** (2 * good))
    below = loss_scaling.Settings(curvature=curvature, steps=90, start_power=max(0, power - 3), interval=40)
    assert loss_scaling._left_after(below) == pytest.approx(0.9 ** (2 * (90 - 2)))
    lost, share = loss_scaling._lost_steps(settings)
    assert (lost.expected, lost.got) == (3, 3)
    assert share.got == pytest.approx(1 / 51)


def test_without_a_scale_only_gradients_below_half_a_subnormal_are_lost() -> None:
    """Curvatures from a tenth to all of 1e-6, starts of 1: fp16 knows nothing at or below 2^-25."""
    from lockstep.learn.lab.experiments.precision import loss_scaling

    settings = loss_scaling.Settings(steps=10)
    nothing = loss_scaling.Trained(np.zeros(1), 0, loss_scaling.static(1.0))
    checks = {one.what: one for one in loss_scaling._run_checks([nothing] * 5, settings)}
    curvatures = 1e-6 * 10.0 ** np.linspace(-1, 0, 200)
    left = np.minimum(1.0, 2.0**-25 / curvatures)
    most = float((curvatures * left**2).sum() / curvatures.sum())
    check = checks["fp16 without a scale: loss where gradients are flushed"]
    slowest = 0.9**20
    assert check.expected == pytest.approx(most)
    assert check.tolerance == pytest.approx(0.75 * most + slowest)
    assert checks["fp32 converges"].tolerance == pytest.approx(1e-9 + slowest)
    assert checks["fp16 with a static scale converges"].tolerance == pytest.approx(1e-6 + slowest)


@pytest.mark.parametrize("algorithm", ["ring", "tree"])
def test_every_overflow_guard_acts_as_expected_on_eight_ranks(algorithm: str) -> None:
    """Infinities and sums of 8 times 10^4 reach all ranks; only dividing first and skipping keep the weights right."""
    from lockstep.learn.lab.experiments.precision import overflow

    settings = overflow.Settings(algorithm=algorithm)
    lost, skipped, finite = ("lost", 8), ("skipped by all", 0), ("wrong but finite", 0)
    expected = {
        "none": (lost, lost, lost),
        "clip entries": (finite, lost, lost),
        "clip norm": (lost, lost, lost),
        "divide by n first": (lost, lost, ("right", 0)),
        "check after, skip": (skipped, skipped, skipped),
    }
    for guard, outcomes in expected.items():
        for case, outcome in zip(overflow.CASES, outcomes, strict=True):
            with np.errstate(over="ignore", invalid="ignore"):
                row = overflow._row(guard, case, settings)
            assert (row["step"], row["ranks_with_bad_entries"]) == outcome, (guard, case)
            assert (row["guard"], row["case"]) == (guard, case)
    few = overflow.Settings(ranks=6, algorithm=algorithm)
    assert overflow._row("none", "sum too large", few)["step"] == "right"


def test_final_weights_of_each_storage_format_are_read_from_their_paths() -> None:
    """Three paths written down: where they end, the mean square of the second half, and what is left of the start."""
    from lockstep.learn.lab.experiments.precision import master_weights
    from lockstep.learn.methods.number_format import number_format

    settings = master_weights.Settings(step_size=0.1, steps=100, repetitions=20)
    late = np.full((101, 2), 9.0)
    late[50:] = [0.2, 0.4]
    paths = {
        "round to nearest": np.array([[-0.7], [-0.06]]),
        "stochastic rounding": late,
        "fp32 weights": np.array([[-0.7], [1e-7]]),
    }
    nearest, random, kept = master_weights._floors(paths, number_format("bf16"), settings)
    spacing, left = 2.0**-7, 0.9**50 * 0.7
    assert (nearest.expected, nearest.got) == pytest.approx((spacing / 0.2, 0.06))
    assert nearest.tolerance == pytest.approx(spacing + left)
    assert random.got == pytest.approx((0.2**2 + 0.4**2) / 2)
    assert random.standard_error == pytest.approx((0.4**2 - 0.2**2) / 2)
    assert random.expected == pytest.approx(spacing**2 / (4 * 0.1 * 1.9))
    assert random.tolerance == pytest.approx(left**2)
    assert (kept.expected, kept.got) == pytest.approx((2.0**-23 / 0.2, 1e-7))
    assert kept.tolerance == pytest.approx(2.0**-23 / 0.2 + left)


def test_error_bounds_of_sums_count_their_roundings() -> None:
    """Per unit roundoff and sum of magnitudes: n - 1 one by one, log2 n in pairs, 2 compensated."""
    from lockstep.learn.lab.experiments.determinism import summation_error

    rows, checks = summation_error._measured(100, summation_error.Settings(sums=10), seed=0)
    bounds = {row["way"]: row["bound_in_unit_roundoffs"] for row in rows}
    u = 2.0**-24
    assert bounds["sequential"] == pytest.approx(99)
    assert bounds["pairwise"] == pytest.approx(7)
    assert bounds["Kahan"] == pytest.approx(2 + 400 * u)
    assert bounds["Neumaier"] == pytest.approx(2 + 40_000 * u)
    assert all(row["error_in_unit_roundoffs"] <= bounds[row["way"]] for row in rows)
    assert all(one.ok for one in checks)


@pytest.mark.parametrize(("ranks", "told"), [(6, False), (7, True)])
def test_clipping_below_the_range_is_tested_where_sums_overflow(ranks: int, told: bool) -> None:
    """Seven times 10^4 is beyond 65504, six times is not."""
    from lockstep.learn.lab.experiments.precision import overflow

    settings = overflow.Settings(ranks=ranks)
    with np.errstate(over="ignore", invalid="ignore"):
        rows = tuple(overflow._row(guard, case, settings) for case in overflow.CASES for guard in overflow.GUARDS)
    (check,) = [one for one in overflow._guard_checks(rows) if "65504" in one.what]
    assert check.holds.here is told
    assert check.ok is told


@pytest.mark.parametrize("seed", [0, 3])
def test_clipping_each_micro_batch_differs_by_the_clipped_remainder(seed: int) -> None:
    """Of the first draws of a seed: 50 entries of one gradient, then two micro-batches, one large and one small."""

    def clipped(vector: np.ndarray) -> np.ndarray:
        return vector / max(1.0, float(np.sqrt(vector @ vector)))

    (draw,) = streams(seed, 1)
    entries = draw.standard_normal(150)
    large, small = entries[50:100] + 0.5, entries[100:] / 10
    gap = abs(clipped(large + small) - clipped(large) - clipped(small)).max()
    found = {one.what: one.got for one in loss_scaling._clip_order(seed)}
    assert found["micro-batches may be clipped separately"] == pytest.approx(gap)
    assert gap > 0.05
